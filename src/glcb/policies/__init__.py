"""One policy per file, all behind the protocol in ``base.py``."""

from glcb.policies.base import Decision, Policy
from glcb.policies.glcb.policy import GLCB
from glcb.policies.glcb.settings import Settings
from glcb.policies.linear.lin_ts import LinTS
from glcb.policies.linear.lin_ucb import LinUCB
from glcb.policies.simple.epsilon_greedy import EpsilonGreedy
from glcb.policies.simple.ucb1 import UCB1
from glcb.policies.simple.uniform import Uniform

__all__ = ["GLCB", "UCB1", "Decision", "EpsilonGreedy", "LinTS", "LinUCB", "Policy", "Settings", "Uniform"]
