"""The log to evaluate on: its files, its survey, and its decisions as chunks."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from glcb._errors import InvalidSettings, LogError
from glcb._text import is_integer
from glcb._types import Arm
from glcb.evaluate import formats
from glcb.evaluate.formats import Layout
from glcb.evaluate.rows import Chunk, LoggedDecision, LogRow, Survey, chunks

Stage = Literal["reading", "evaluating"]
Progress = Callable[[Stage, float], None]
"""Called with the stage and its completed share."""

_SURVEY_ROWS = 5000
"""Rows between two calls of ``progress`` during the first pass over the log."""


@dataclass(frozen=True)
class LogFiles:
    """The files of a log, in order. Each is read by itself, so it can be read in another process.

    Parameters
    ----------
    paths : tuple of Path
        The files.
    format : str, optional
        Their format. Default: detected for each.
    layout : Layout
        Their layout.
    folder : Path
        The folder for relative paths. Default: the working directory of the process.
    """

    paths: tuple[Path, ...]
    format: str | None
    layout: Layout
    folder: Path = Path()

    def __post_init__(self) -> None:
        if not self.paths:
            raise InvalidSettings("name at least one file of the log")
        if len(set(self.paths)) < len(self.paths):
            twice = next(path for path in self.paths if self.paths.count(path) > 1)
            raise InvalidSettings(f"{twice} is named twice: its decisions would count twice")

    def __str__(self) -> str:
        others = len(self.paths) - 1
        return str(self.paths[0]) + (f" and {others:,} other files" if others else "")

    def rows(self, number: int) -> Iterator[LogRow]:
        """Yield the rows of a file."""
        return formats.read(self.folder / self.paths[number], self.format, self.layout)

    def survey(self, number: int, progress: Progress | None = None) -> Survey:
        """Read a file once."""
        files = len(self.paths)
        survey, prefix = Survey(), f"{self.paths[number]}, " if files > 1 else ""
        for count, row in enumerate(self.rows(number), 1):
            survey.add(row, count, prefix)
            if progress is not None and count % _SURVEY_ROWS == 0:
                progress("reading", (number + row.share) / files)
        return survey

    def joined(self, surveys: Iterable[Survey]) -> Survey:
        """Return the combined survey of all files; raise LogError if there is nothing to evaluate."""
        survey = Survey()
        for own in surveys:
            survey.merge(own)
        return usable_survey(survey, str(self))


def survey_rows(rows: Iterable[LogRow], name: str) -> Survey:
    """Read the whole log with this name once."""
    survey = Survey()
    for number, row in enumerate(rows, 1):
        survey.add(row, number)
    return usable_survey(survey, name)


def usable_survey(survey: Survey, name: str) -> Survey:
    """Return the survey of a log; raise LogError if the log has no decisions with a reward."""
    if not survey.rows:
        first = next(iter(survey.examples.values()), "it is empty")
        raise LogError(f"{name} has no decisions with a reward ({first})")
    return survey


def find_arms(survey: Survey) -> tuple[tuple[Arm, ...], dict[Arm, int]]:
    """Return the arms, and their positions under all spellings. They are integers only if every arm is."""
    found = list(survey.arms)
    if all(isinstance(arm, int) or is_integer(arm) for arm in found):
        arms: tuple[Arm, ...] = tuple(sorted(set(map(int, found))))
    else:
        arms = tuple(sorted(found, key=lambda arm: (isinstance(arm, str), arm)))
    index: dict[Arm, int] = {}
    for position, arm in enumerate(arms):
        index.setdefault(str(arm), position)
    index.update({arm: position for position, arm in enumerate(arms)})
    return arms, index


def count_arms(survey: Survey, arms: tuple[Arm, ...]) -> dict[Arm, int]:
    """Return the number of decisions for each arm; an integer may be text in the log."""
    return {
        arm: sum(survey.arms.get(name, 0) for name in ((arm, str(arm)) if isinstance(arm, int) else (arm,)))
        for arm in arms
    }


@dataclass(frozen=True)
class ChunkReader:
    """Turns the rows of a log into chunks of decisions that can be evaluated."""

    arms: tuple[Arm, ...]
    index: Mapping[Arm, int]
    """The position of each arm, under each of its spellings."""
    reward_range: tuple[float, float]
    uniform: bool
    """Whether uniform logging is assumed."""
    modeled: bool
    """Whether propensities are ignored."""

    def chunks(self, rows: Iterable[LogRow]) -> Iterator[Chunk]:
        """Yield the chunks of a log, or of one of its files."""
        return chunks(self._decisions(rows), self.index, self.reward_range)

    def _decisions(self, rows: Iterable[LogRow]) -> Iterator[LoggedDecision]:
        """Yield the decisions, with the features of arms by their names here."""
        features: Mapping[Arm, Any] | None = None
        renamed: dict[Arm, Any] = {}
        for row in rows:
            decision = row.decision
            if decision is None:
                continue
            if self.uniform:
                candidates = self.arms if decision.eligible is None else decision.eligible
                decision = decision._replace(propensity=1 / (len(candidates) - len(decision.above)))
            if decision.features is not None:
                if decision.features is not features:  # decisions often have the same catalog
                    features = decision.features
                    renamed = {self.arms[self.index[arm]]: own for arm, own in features.items()}
                decision = decision._replace(features=renamed)
            if self.modeled:
                decision = decision._replace(propensity=1.0)  # the direct method does not use it
            if decision.propensity:
                yield decision
