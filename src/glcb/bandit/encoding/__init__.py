"""Encoding of contexts: from named values of any type to numbers in [0, 1]."""
