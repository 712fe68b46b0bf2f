"""Off-policy evaluation: estimates of what a policy would have earned, from another policy's log."""

from glcb.evaluate.api import Frozen, convert, evaluate
from glcb.evaluate.diagnostics import Diagnostic
from glcb.evaluate.result import Evaluation, Interval, PolicyResult, Quantity

__all__ = [
    "Diagnostic",
    "Evaluation",
    "Frozen",
    "Interval",
    "PolicyResult",
    "Quantity",
    "convert",
    "evaluate",
]
