"""Intents: which of 77 answers fits the question of a bank's customer?"""

import csv
from pathlib import Path
from typing import ClassVar

import numpy as np

from glcb._errors import DataError
from glcb._types import Rewards
from glcb.tasks.base import Stream, min_max, stream_generators
from glcb.tasks.data.cache import ParsedData
from glcb.tasks.data.directory import DataFile, Facts, open_text
from glcb.tasks.file_task import FileTask
from glcb.tasks.prompts import WordComponents
from glcb.tasks.registry import register

UNSCORED = 3000
"""Number of texts that define the words and components. They are not scored."""
_ORDER = 2026
"""Seed of the order that separates these texts: the file is sorted by intent."""


def _file(features: int) -> DataFile:
    origin = "https://github.com/PolyAI-LDN/task-specific-datasets"
    return DataFile("intents/banking77.csv", Facts(13_083, features, 77), "CC BY 4.0", origin)


class IntentTask(FileTask):
    """Questions of a bank's customers, each with its intent. Choosing the right one pays 1."""

    rewards: ClassVar[Rewards] = "binary"
    steps: ClassVar[int] = 8000
    features: ClassVar[int]

    @classmethod
    def read(cls, path: Path) -> ParsedData:
        """Parse ``path``. The texts that are not scored come first."""
        with open_text(path) as file:
            try:
                rows = [(row["text"], row["intent"]) for row in csv.DictReader(file)]
            except KeyError as error:
                raise DataError(f"{path} must have the columns text and intent") from error
        order = np.random.default_rng(_ORDER).permutation(len(rows))
        texts = [rows[row][0] for row in order]
        intents = sorted({intent for _, intent in rows})
        index = {intent: position for position, intent in enumerate(intents)}
        words = WordComponents(texts[:UNSCORED], cls.features)
        return ParsedData(
            {
                "contexts": cls.contexts(words, texts),
                "intents": np.array([index[rows[row][1]] for row in order]),
            },
            {"intents": intents},
        )

    @classmethod
    def contexts(cls, words: WordComponents, texts: list[str]) -> np.ndarray:
        """Return one row of numbers within [0, 1] per text."""
        raise NotImplementedError

    @classmethod
    def facts(cls, parsed: ParsedData) -> Facts:
        """Return the facts that identify the file."""
        return Facts(len(parsed.arrays["intents"]), cls.features, len(parsed.about["intents"]))

    @property
    def arms(self) -> tuple[str, ...]:
        """The intents."""
        return tuple(self._parsed.about["intents"])

    def stream(self, seed: int, steps: int | None = None) -> Stream:
        """Return the stream of ``seed``: the scored texts in random order."""
        length = self.steps if steps is None else steps
        (rng,) = stream_generators(seed, length, 1)
        contexts, intents = self._parsed.arrays["contexts"], self._parsed.arrays["intents"]
        order = UNSCORED + rng.permutation(len(intents) - UNSCORED)[:length]
        rewards = np.zeros((order.size, len(self.arms)))
        rewards[np.arange(order.size), intents[order]] = 1
        return Stream(contexts[order].astype(np.float32), rewards)


@register
class Banking77(IntentTask):
    """77 intents and the 64 principal components of a question's words (TF-IDF and singular vectors)."""

    name = "banking77"
    features = 64
    files = (_file(features),)

    @classmethod
    def contexts(cls, words: WordComponents, texts: list[str]) -> np.ndarray:
        """Return the components, scaled by the range of all texts."""
        return min_max(words(texts))


@register
class Banking77Words(IntentTask):
    """77 intents and the 1,000 most frequent words, each 1 if it occurs in the question, else 0."""

    name = "banking77-words"
    features = 1000
    files = (_file(features),)

    @classmethod
    def contexts(cls, words: WordComponents, texts: list[str]) -> np.ndarray:
        """Return 1 for each word that occurs."""
        return words.occurrences(texts)[:, : cls.features]
