"""Experiments divided over processes: front ends answer HTTP, shards have the experiments, Ray runs them."""
