"""Off-policy evaluation: what a policy would have earned, estimated from the log of another one."""

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
