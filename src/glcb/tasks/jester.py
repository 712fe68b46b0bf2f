"""Jester (Goldberg, Roeder, Gupta, Perkins 2001): which of eight jokes will this person like best?"""

import io
from pathlib import Path

import numpy as np

from glcb._arrays import Float64
from glcb._errors import DataError
from glcb._types import Rewards
from glcb.tasks.base import STEPS, Stream, draw_rows, min_max, stream_generators
from glcb.tasks.data.cache import ParsedData
from glcb.tasks.data.directory import DataFile, Facts, open_binary
from glcb.tasks.file_task import FileTask
from glcb.tasks.registry import register


@register
class Jester(FileTask):
    """Ratings of 40 jokes by 19,181 people; 32 ratings are the context, the other eight the rewards.

    Which jokes are arms differs between seeds. A rating from −10 to 10 becomes a reward from 0 to 1.
    """

    name = "jester"
    arms = tuple(range(8))
    features = 32
    rewards: Rewards = (0.0, 1.0)
    files = (
        DataFile(
            "jester_data_40jokes_19181users.npy",
            Facts(19_181, 32, 8),
            "free for research; cite Goldberg et al. 2001",
            "https://eigentaste.berkeley.edu/dataset/",
            size=6_138_048,
        ),
    )

    @classmethod
    def read(cls, path: Path) -> ParsedData:
        """Parse ``path``: a NumPy array with one row per person."""
        with open_binary(path) as content:
            array = io.BytesIO(content.read())
        try:
            ratings = np.lib.format.read_array(array, allow_pickle=False)
        except ValueError as error:
            raise DataError(f"{path} is not a NumPy array file: {error}") from error
        if ratings.ndim != 2 or ratings.dtype.kind not in "fi" or not (np.abs(ratings) <= 10).all():
            raise DataError(f"{path} must hold a table of ratings from −10 to 10")
        return ParsedData({"ratings": np.ascontiguousarray(ratings, np.float64)}, {})

    @classmethod
    def facts(cls, parsed: ParsedData) -> Facts:
        """Return the facts that identify the file."""
        people, jokes = parsed.arrays["ratings"].shape
        return Facts(people, jokes - len(cls.arms), len(cls.arms))

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``."""
        row_rng, joke_rng = stream_generators(seed, steps, 2)
        people = self._parsed.arrays["ratings"]
        jokes = joke_rng.permutation(people.shape[1])
        ratings: Float64 = people[draw_rows(len(people), steps, row_rng)][:, jokes]
        contexts, rewards = ratings[:, : self.features], ratings[:, self.features :]
        return Stream(min_max(contexts), (rewards + 10) / 20)
