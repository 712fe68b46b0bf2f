"""Gated linear networks: gates, optimizers, and a bank of networks that share both."""

from glcb.gln.bank import Bank, Initialization, Output
from glcb.gln.context_cache import ContextCacheArrays, empty_context_cache
from glcb.gln.gates import Gates
from glcb.gln.optimizer import GradientDescent, Newton

__all__ = [
    "Bank",
    "ContextCacheArrays",
    "Gates",
    "GradientDescent",
    "Initialization",
    "Newton",
    "Output",
    "empty_context_cache",
]
