"""Financial (Riquelme, Tucker, Snoek 2018): which of eight portfolios does best today?"""

from pathlib import Path

import numpy as np

from glcb._arrays import Float64
from glcb._errors import DataError
from glcb._types import Rewards
from glcb.tasks.base import STEPS, Stream, draw_rows, min_max, stream_generators
from glcb.tasks.data.cache import ParsedData
from glcb.tasks.data.directory import DataFile, Facts, open_text
from glcb.tasks.file_task import FileTask
from glcb.tasks.linear import linear_rewards, unit_columns
from glcb.tasks.registry import register


@register
class Financial(FileTask):
    """Prices of 21 stocks on 3,713 days; each arm is a random portfolio, different for every seed.

    The rewards of each day are scaled so that its best portfolio pays 1 and its worst 0.
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
    def read(cls, path: Path) -> ParsedData:
        """Parse ``path``: a header separated by commas, then numbers separated by spaces."""
        with open_text(path) as text:
            names = next(text, "").strip().split(",")
            try:
                days = np.loadtxt(text, ndmin=2)
            except ValueError as error:
                raise DataError(f"{path} must hold a header and a table of numbers: {error}") from error
        return ParsedData({"days": days}, {"names": names})

    @classmethod
    def facts(cls, parsed: ParsedData) -> Facts:
        """Return the facts that identify the file."""
        days, stocks = parsed.arrays["days"].shape
        return Facts(days, stocks, len(cls.arms))

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``."""
        row_rng, portfolio_rng, noise_rng = stream_generators(seed, steps, 3)
        days = self._parsed.arrays["days"]
        prices: Float64 = days[draw_rows(len(days), steps, row_rng)]
        portfolios = unit_columns(portfolio_rng.uniform(-1, 1, (self.features, len(self.arms))))
        table = linear_rewards(prices, portfolios, noise_rng)
        worst, best = table.min(axis=1, keepdims=True), table.max(axis=1, keepdims=True)
        return Stream(min_max(prices), (table - worst) / (best - worst))


@register
class FinancialBinary(Financial):
    """Like the financial task, but the best portfolio of a day pays 1 and all others pay 0."""

    name = "financial-binary"
    rewards: Rewards = "binary"

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``: the days and the best portfolios of the financial task."""
        graded = super().stream(seed, steps)
        best = graded.rewards.argmax(axis=1)
        return Stream(graded.contexts, np.eye(len(self.arms))[best])
