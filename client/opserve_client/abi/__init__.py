"""The C library by which programs for the vendor's runtime run on a service, unchanged."""
