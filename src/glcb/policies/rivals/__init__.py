"""Bandits of other libraries as policies. They need the extra ``rivals``."""
