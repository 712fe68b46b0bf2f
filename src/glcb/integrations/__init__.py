"""Bridges to other tools, one module each. A module needs the extra with its name."""
