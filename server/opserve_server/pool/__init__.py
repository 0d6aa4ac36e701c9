"""Device workers: processes, shared memory, supervision."""
