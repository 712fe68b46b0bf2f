"""Published results of the paper. The published ranks follow from these rewards.

Source: E. Sezener, M. Hutter, D. Budden, J. Wang, J. Veness, "Online Learning in Contextual Bandits using
Gated Linear Networks", NeurIPS 2020: table of cumulative rewards in the appendix. The values
are means over 500 seeds with their standard errors.
"""

from typing import NamedTuple

from glcb.bench.plan import PAPER_TASKS
from glcb.tasks.base import STEPS

SOURCE = (
    "E. Sezener, M. Hutter, D. Budden, J. Wang, J. Veness: Online Learning in Contextual Bandits using "
    "Gated Linear Networks, NeurIPS 2020"
)
SEEDS = 500
FINANCIAL_STEPS = 3713
"""Number of rows of the financial data; the other tasks have the full number of steps."""


class Published(NamedTuple):
    """One cell of the paper's table of cumulative rewards."""

    mean: float
    error: float


# adult, census, covertype, statlog, financial, jester, wheel
_REWARDS: dict[str, tuple[tuple[int, int], ...]] = {
    "glcb-paper": ((742, 3), (2804, 3), (2825, 3), (4814, 2), (3092, 3), (3216, 3), (4308, 11)),
    "bootrms": ((676, 3), (2693, 3), (3002, 7), (4583, 11), (2898, 4), (3269, 4), (1933, 44)),
    "dropout": ((652, 5), (2644, 8), (2899, 7), (4403, 15), (2769, 4), (3268, 4), (2383, 48)),
    "linfullpost": ((463, 2), (1898, 2), (2821, 6), (4457, 2), (3122, 1), (3193, 4), (4491, 15)),
    "neurallinear": ((391, 2), (2418, 2), (2791, 6), (4762, 2), (3059, 2), (3169, 4), (4285, 18)),
    "rms": ((598, 5), (2604, 14), (2923, 8), (4392, 17), (2857, 5), (3266, 8), (1863, 44)),
    "bbb": ((399, 8), (2258, 12), (2983, 11), (4576, 10), (2172, 18), (3199, 4), (2265, 44)),
    "paramnoise": ((273, 3), (2284, 5), (2493, 5), (4098, 10), (2224, 2), (3084, 4), (3443, 20)),
    "constsgd": ((107, 3), (1399, 22), (1991, 9), (3896, 18), (1862, 1), (3136, 4), (2265, 31)),
    "bbalphadiv": ((18, 2), (932, 12), (1838, 9), (2731, 15), (1860, 1), (3112, 4), (1776, 11)),
}

REWARDS: dict[str, dict[str, Published]] = {
    policy: {task: Published(*cell) for task, cell in zip(PAPER_TASKS, row, strict=True)}
    for policy, row in _REWARDS.items()
}
"""Cumulative reward by policy and task."""


def steps(task: str) -> int:
    """Return the number of steps of ``task`` in the paper."""
    return FINANCIAL_STEPS if task == "financial" else STEPS
