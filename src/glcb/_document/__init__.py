"""Documents of sections, tables and figures, rendered as one HTML page and as Markdown."""
