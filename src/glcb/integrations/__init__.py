"""Bridges to other tools, one module each. A module needs the extra of its name; none is imported unasked."""
