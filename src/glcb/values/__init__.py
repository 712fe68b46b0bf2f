"""Values: rewards become targets of networks, and probabilities of networks become expected rewards."""

from glcb.values.tree import Bernoulli, LeafValues, Tree

__all__ = ["Bernoulli", "LeafValues", "Tree"]
