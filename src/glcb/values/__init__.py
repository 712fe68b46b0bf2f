"""How a reward becomes targets for networks, and their probabilities become a value again."""

from glcb.values.bernoulli import Bernoulli
from glcb.values.tree import LeafValues, Tree

__all__ = ["Bernoulli", "LeafValues", "Tree"]
