"""Adapters to other libraries, one module each."""
