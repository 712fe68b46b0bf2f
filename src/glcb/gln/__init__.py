"""Gated linear networks: gates, steps, and a bank of networks that share both."""

from glcb.gln.bank import Bank, Output, Start
from glcb.gln.gates import Gates
from glcb.gln.sight import Sight, unseeing
from glcb.gln.steps import NewtonStep, PlainStep, StepKind

__all__ = ["Bank", "Gates", "NewtonStep", "Output", "PlainStep", "Sight", "Start", "StepKind", "unseeing"]
