"""Linear policies: one regression per arm."""
