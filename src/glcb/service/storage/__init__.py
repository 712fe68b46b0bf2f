"""The database: events, snapshots, keys and locks."""
