"""An experiment in memory, and what the process knows of it that is gone when it ends."""

import asyncio
import time
from collections import Counter

from glcb.service.core.experiment import Experiment
from glcb.service.histogram import Times

_LONG = 0.003
"""Events that take longer than so many seconds are applied in a thread."""


class Live:
    """A loaded experiment: whoever changes or reads it holds the lock."""

    def __init__(self, number: int, experiment: Experiment, generation: int, saved: int) -> None:
        self.id = number
        self.experiment = experiment
        self.generation = generation
        """Of the journal, when it was loaded."""
        self.saved = saved
        """Number of the event after which the newest snapshot was taken."""
        self.tried = saved
        """Number of the event after which one was last tried; it may have failed."""
        self.saving = False
        self.gone = False
        """Whether it was unloaded: the next one to ask must load it again."""
        self.lock = asyncio.Lock()
        self.used = time.monotonic()
        """When somebody last asked for it."""
        self._pace = 0.0

    def took(self, seconds: float) -> None:
        """Take the time that an event kept the processor busy."""
        self._pace += (seconds - self._pace) / 10

    @property
    def quick(self) -> bool:
        """Whether events take so little time that others need not be asked in between."""
        return self._pace < _LONG and self.experiment.quick

    def is_due(self, events: int) -> bool:
        """Return whether it is time for a snapshot, of which there should be one after so many events."""
        return not self.saving and self.experiment.around.sequence - self.tried >= events

    @property
    def name(self) -> str:
        """The name of the experiment."""
        return self.experiment.around.creation.name

    @property
    def unsaved(self) -> int:
        """Number of events since the newest snapshot."""
        return self.experiment.around.sequence - self.saved


class Activity:
    """What happened to an experiment since the service started, whether it is loaded or not."""

    def __init__(self) -> None:
        self.latency = Times()
        """From a request for a decision to its answer."""
        self.happened: Counter[str] = Counter()
        """Events by their kind."""
        self.refused: Counter[str] = Counter()
        """Refusals by their code."""
