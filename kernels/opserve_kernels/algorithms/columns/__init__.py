"""Products through the matrix of columns: any geometry, slow and small."""
