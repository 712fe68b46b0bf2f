"""How a reward becomes 0/1 targets for networks, and their probabilities become a value again."""

from glcb.values.base import ValueModel
from glcb.values.bernoulli import Bernoulli
from glcb.values.tree import Tree

__all__ = ["Bernoulli", "Tree", "ValueModel"]
