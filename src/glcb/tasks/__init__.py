"""Bandit tasks: streams of contexts with the reward of every arm.

A task is looked up by name, or made from your own data with :class:`ClassificationTask` or
:class:`RewardTableTask`. All tasks follow the :class:`Task` protocol.

>>> from glcb import tasks
>>> task = tasks.get("wheel")
>>> task.stream(seed=0, steps=100).contexts.shape
(100, 2)
"""

from glcb.tasks.base import STEPS, Stream, Task, stream_generators
from glcb.tasks.own_data import ClassificationTask, RewardTableTask
from glcb.tasks.registry import get, names, register
from glcb.tasks.wheel import Wheel

__all__ = [
    "STEPS",
    "ClassificationTask",
    "RewardTableTask",
    "Stream",
    "Task",
    "Wheel",
    "get",
    "names",
    "register",
    "stream_generators",
]
