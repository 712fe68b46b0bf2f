"""Explanations: the contribution of each feature to an arm's value, and the evidence behind it."""

from glcb.explain.explanation import Explanation

__all__ = ["Explanation"]
