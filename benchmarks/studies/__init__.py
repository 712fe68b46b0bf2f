"""Comparisons behind tables of docs/results.md."""
