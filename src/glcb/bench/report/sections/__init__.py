"""The chapters of the report, one per file."""
