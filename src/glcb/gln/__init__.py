"""Gated linear networks: gates, and a bank of networks that share them."""

from glcb.gln.bank import Bank, Output
from glcb.gln.gates import Gates

__all__ = ["Bank", "Gates", "Output"]
