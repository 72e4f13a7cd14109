"""Tables in a real S3-compatible server."""
