"""Persistence: the database, its tables, group commit, snapshots and locks."""
