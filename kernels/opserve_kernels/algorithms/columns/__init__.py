"""By way of the matrix of columns: any geometry, slow and small."""
