"""One policy per file, all behind the protocol in ``base.py``."""

from glcb.policies.base import Decision, Policy
from glcb.policies.epsilon_greedy import EpsilonGreedy
from glcb.policies.glcb import GLCB
from glcb.policies.lin_ts import LinTS
from glcb.policies.lin_ucb import LinUCB
from glcb.policies.settings import Settings
from glcb.policies.ucb1 import UCB1
from glcb.policies.uniform import Uniform

__all__ = ["GLCB", "UCB1", "Decision", "EpsilonGreedy", "LinTS", "LinUCB", "Policy", "Settings", "Uniform"]
