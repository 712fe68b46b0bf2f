"""Studies that play whole tasks: how much of it, which tasks can be played here, and how far it is."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeVar

from glcb._errors import DataError
from glcb.bench.plan import without_data
from glcb.bench.run import Run
from glcb.bench.studies.base import Study, Workplace

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class PlayingStudy(Study):
    """A study that plays tasks as the benchmark does."""

    seeds: int = 20
    steps: int = 5000

    @classmethod
    def quick(cls) -> Self:
        """Return a form of some hundred steps."""
        return cls(seeds=2, steps=500)

    def runs(self, task: str, policy: str, settings: dict[str, Any]) -> list[Run]:
        """Return a run for every seed."""
        return [Run(task, policy, seed, self.steps, settings) for seed in range(self.seeds)]


class Playable(NamedTuple):
    """The tasks whose data is here, and what to say of the others."""

    tasks: tuple[str, ...]
    remarks: list[str]


def playable(tasks: Sequence[str]) -> Playable:
    """Return which of the tasks can be played; raise DataError if none can."""
    absent = without_data(tasks)
    present = tuple(task for task in tasks if task not in absent)
    if not present:
        raise DataError(f"this study needs the data of {' or '.join(tasks)}: see `glcb data list`")
    remark = f"Left out, their data is not here (`glcb data list`): {', '.join(absent)}."
    return Playable(present, [remark] if absent else [])


def plays(place: Workplace, seeds: int, what: Collection[T]) -> Iterator[tuple[int, T]]:
    """Yield every seed with everything that is to be played with it, and tell how far it is."""
    total = seeds * len(what)
    for seed in range(seeds):
        for done, one in enumerate(what):
            place.progress(seed * len(what) + done, total)
            yield seed, one
    place.progress(total, total)
