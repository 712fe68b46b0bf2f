"""Evaluations of other policies on the log of an experiment, in a process of their own."""
