"""Persistence: the database, its tables, group commit, the chain of events, ownership and locks."""
