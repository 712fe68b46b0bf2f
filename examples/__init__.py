"""Examples, to be run and read."""
