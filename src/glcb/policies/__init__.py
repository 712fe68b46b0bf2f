"""Policies: one class per module, all with the interface of :class:`Policy`.

To add a policy, derive from :class:`Policy`, return :class:`Estimates` from ``_estimate``, and decorate the
class with :func:`register`.
"""

from glcb.policies.base import Policy
from glcb.policies.decision import Decision, Estimates
from glcb.policies.glcb.paper import GLCBPaper
from glcb.policies.glcb.policy import GLCB, RewardDistribution
from glcb.policies.glcb.settings import Settings, settings_table
from glcb.policies.linear.lin_full_post import LinFullPost
from glcb.policies.linear.lin_ts import LinTS
from glcb.policies.linear.lin_ucb import LinUCB
from glcb.policies.linear.random_features import RFFUCB, RFFUCBSD
from glcb.policies.linear.square_cb import SquareCB
from glcb.policies.registry import Entry, get, make_policy, names, register
from glcb.policies.simple import UCB1, EpsilonGreedy, Uniform

__all__ = [
    "GLCB",
    "RFFUCB",
    "RFFUCBSD",
    "UCB1",
    "Decision",
    "Entry",
    "EpsilonGreedy",
    "Estimates",
    "GLCBPaper",
    "LinFullPost",
    "LinTS",
    "LinUCB",
    "Policy",
    "RewardDistribution",
    "Settings",
    "SquareCB",
    "Uniform",
    "get",
    "make_policy",
    "names",
    "register",
    "settings_table",
]
