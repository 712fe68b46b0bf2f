"""Why an arm has the value it has: what every feature contributes, and on how much experience that rests."""

from glcb.explain.explanation import Explanation

__all__ = ["Explanation"]
