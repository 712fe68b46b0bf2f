"""Gated Linear Contextual Bandits."""
