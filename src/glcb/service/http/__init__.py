"""The HTTP interface: connections, the application, its routes and their handlers."""
