"""Financial (Riquelme, Tucker, Snoek 2018): which of eight portfolios does best today?"""

from pathlib import Path

import numpy as np

from glcb._errors import DataError
from glcb._types import Float64, Rewards
from glcb.tasks.base import STEPS, Stream, begin, draw_rows, min_max
from glcb.tasks.data.cache import Stored
from glcb.tasks.data.directory import DataFile, Facts, opened_text
from glcb.tasks.file_task import FileTask
from glcb.tasks.linear import linear_rewards, unit_columns
from glcb.tasks.registry import register


@register
class Financial(FileTask):
    """Prices of 21 stocks on 3,713 days; each arm is a random portfolio, new for every seed.

    The rewards of every day are scaled so that its best portfolio brings 1 and its worst 0.
    """

    name = "financial"
    arms = tuple(range(8))
    features = 21
    rewards: Rewards = (0.0, 1.0)
    files = (
        DataFile(
            "raw_stock_contexts",
            Facts(3_713, 21, 8),
            "not stated",
            "https://storage.googleapis.com/bandits_datasets/raw_stock_contexts",
            size=1_987_117,
        ),
    )

    @classmethod
    def read(cls, path: Path) -> Stored:
        """Parse ``path``: a line of names separated by commas, then numbers separated by blanks."""
        with opened_text(path) as text:
            names = next(text, "").strip().split(",")
            try:
                days = np.loadtxt(text, ndmin=2)
            except ValueError as error:
                raise DataError(f"{path} is not a table of numbers below a line of names: {error}") from error
        return Stored({"days": days}, {"names": names})

    @classmethod
    def facts(cls, stored: Stored) -> Facts:
        """Return what the file is recognized by."""
        days, stocks = stored.arrays["days"].shape
        return Facts(days, stocks, len(cls.arms))

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``."""
        row_rng, portfolio_rng, noise_rng = begin(seed, steps, 3)
        days = self._stored.arrays["days"]
        prices: Float64 = days[draw_rows(len(days), steps, row_rng)]
        portfolios = unit_columns(portfolio_rng.uniform(-1, 1, (self.features, len(self.arms))))
        table = linear_rewards(prices, portfolios, noise_rng)
        worst, best = table.min(axis=1, keepdims=True), table.max(axis=1, keepdims=True)
        return Stream(min_max(prices), (table - worst) / (best - worst))
