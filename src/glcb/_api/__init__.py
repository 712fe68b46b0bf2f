"""Request and response types and error codes, shared by the service and its client."""
