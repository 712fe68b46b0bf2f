"""The HTTP interface: a fast path for decisions and rewards, and handlers for all other routes."""
