"""One task per file, all behind the protocol in ``base.py``."""

from glcb.tasks.base import Stream, Task
from glcb.tasks.wheel import Wheel

__all__ = ["Stream", "Task", "Wheel"]
