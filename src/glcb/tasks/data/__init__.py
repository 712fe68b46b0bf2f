"""Data files of tasks: find, fetch, verify, read and cache them."""
