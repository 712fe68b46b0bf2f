"""Experts beside the networks: regressions of the reward, and the mixture that weights them."""

from glcb.experts.mixture import EXPERT_ARRAYS, Expert, ExpertArrays, Experts

__all__ = ["EXPERT_ARRAYS", "Expert", "ExpertArrays", "Experts"]
