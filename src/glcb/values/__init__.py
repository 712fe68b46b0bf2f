"""Values: conversion of rewards to network targets, and of network outputs to expected rewards."""

from glcb.values.tree import Bernoulli, LeafValues, Tree

__all__ = ["Bernoulli", "LeafValues", "Tree"]
