"""Linear policies."""
