"""Policies that ignore the context."""
