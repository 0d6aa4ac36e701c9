"""The routes of the REST API, one module for each tag of the document."""
