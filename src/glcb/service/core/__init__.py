"""Experiments: events, state, statistics and idempotency."""
