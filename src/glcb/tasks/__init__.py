"""One task per file, all behind the protocol in ``base.py``.

>>> from glcb import tasks
>>> task = tasks.get("wheel")
>>> task.stream(seed=0, steps=100).contexts.shape
(100, 2)
"""

from glcb.tasks.base import Stream, Task
from glcb.tasks.classification import ClassificationTask
from glcb.tasks.registry import get, names
from glcb.tasks.reward_table import RewardTableTask
from glcb.tasks.wheel import Wheel

__all__ = ["ClassificationTask", "RewardTableTask", "Stream", "Task", "Wheel", "get", "names"]
