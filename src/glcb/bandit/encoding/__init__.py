"""Encoding of contexts: from named values to numbers in [0, 1]."""
