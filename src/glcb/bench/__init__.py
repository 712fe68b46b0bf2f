"""Benchmarks: run policies on tasks, record the results and report on them.

:func:`simulate` runs one policy on one stream. The command ``glcb bench`` executes a
:class:`~glcb.bench.plan.BenchmarkPlan`, ``glcb report`` writes a report on its results, and ``glcb study``
answers one question about the algorithm.
"""

from glcb.bench.simulation import Trajectory, simulate

__all__ = ["Trajectory", "simulate"]
