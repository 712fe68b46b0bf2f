"""The arms of an experiment with their statistics: all of them, the most chosen ones, or a page of a list."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import asdict

from glcb._api.statistics import ArmMean, ArmPage, ArmRow, ArmStats, OtherArms
from glcb.bandit import recorded
from glcb.service.core.experiment import Experiment
from glcb.service.core.rankings import MAX_LISTED
from glcb.service.core.sums import ArmSums
from glcb.service.errors import ApiError
from glcb.service.views.estimates import arm_means, in_units

MAX_SHARES = 12
"""Points over time have the shares of this many arms, those with the most decisions."""
_MAX_LIMIT = 1000
_SORTS = ("decisions", "name", "share", "reward_mean", "predicted", "rewards")
_ORDERS = ("desc", "asc")

QUERY: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "search",
        {"type": "string", "default": "", "description": "Only names that contain this text, in any case."},
    ),
    ("sort", {"type": "string", "enum": list(_SORTS), "default": _SORTS[0]}),
    (
        "order",
        {
            "type": "string",
            "enum": list(_ORDERS),
            "default": _ORDERS[0],
            "description": "Arms without a value are always the last.",
        },
    ),
    ("offset", {"type": "integer", "minimum": 0, "default": 0, "description": "Number of arms to skip."}),
    ("limit", {"type": "integer", "minimum": 1, "maximum": _MAX_LIMIT, "default": 50}),
)
"""The query parameters of a page."""


class PageQuery(NamedTuple):
    """What a page contains."""

    search: str = ""
    sort: str = _SORTS[0]
    descending: bool = True
    offset: int = 0
    limit: int = 50


def parse_query(query: Mapping[str, str]) -> PageQuery:
    """Return the parsed query of a page."""
    names = dict(QUERY)
    values = {name: str(schema["default"]) for name, schema in names.items()} | dict(query)
    offset, limit = (_parse_integer(values[name]) for name in ("offset", "limit"))
    if (
        query.keys() - names.keys()
        or values["sort"] not in _SORTS
        or values["order"] not in _ORDERS
        or offset is None
        or limit is None
        or not 1 <= limit <= _MAX_LIMIT
    ):
        raise ApiError(
            "invalid_request",
            f"the query must be search=TEXT, sort={' or '.join(_SORTS)}, order=desc or asc, offset=NUMBER "
            f"and limit=1 to {_MAX_LIMIT:,}, got {dict(query)!r}",
        )
    return PageQuery(values["search"], values["sort"], values["order"] == "desc", offset, limit)


def _parse_integer(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


class Arms:
    """Reads the statistics of arms from the sums of an experiment.

    Parameters
    ----------
    experiment
        The experiment.
    """

    def __init__(self, experiment: Experiment) -> None:
        tally = experiment.state.tally
        self._sums = tally.whole
        self._reward_range = experiment.reward_range
        self._catalog = recorded.catalog(experiment.bandit)
        self._rewards = experiment.bandit.reward_counts
        self._arms = dict.fromkeys(map(str, experiment.bandit.arms))
        self._predicted = tally.forecasts.predicted() if tally.catalog is UNSET else tally.catalog.predicted

    def __len__(self) -> int:
        return len(self._arms)

    def names(self) -> Iterator[str]:
        """Yield the arms of the experiment, then others that were chosen among the candidates of requests."""
        yield from self._arms
        if self._catalog is not None:
            yield from (name for name in self._predicted if name not in self._arms)

    def most_chosen(self, count: int) -> list[str]:
        """Return the arms with the most decisions."""
        return sorted(self.names(), key=lambda arm: -self._of(arm).decisions)[:count]

    def value(self, arm: str, column: str) -> float | None:
        """Return a number by which arms can be sorted."""
        if column == "rewards":
            return self._rewards.get(arm, 0)
        if column == "predicted":
            return self._predicted.get(arm)
        return self._of(arm).mean if column == "reward_mean" else self._of(arm).decisions

    def all_stats(self, arms: Iterable[str]) -> tuple[ArmStats, ...]:
        """Return the statistics of arms."""
        found = [(arm, self._of(arm), self._sums.decisions) for arm in arms]
        return tuple(map(self._stats, arm_means(found, self._reward_range)))

    def _stats(self, mean: ArmMean) -> ArmStats:
        more = {"predicted": self._predicted.get(mean.arm), "rewards": self._rewards.get(mean.arm, 0)}
        return ArmStats(**{**asdict(mean), **more})

    def rows(self, arms: Iterable[str]) -> tuple[ArmRow, ...]:
        """Return the rows of arms in a list."""
        return tuple(map(self._row, self.all_stats(arms)))

    def _row(self, stats: ArmStats) -> ArmRow:
        features = None if self._catalog is None else self._catalog.get(stats.arm)
        return ArmRow(
            features=None if features is None else dict(features),
            in_catalog=stats.arm in self._arms,
            **asdict(stats),
        )

    def listed(self) -> tuple[tuple[ArmStats, ...], OtherArms | None]:
        """Return the statistics of all arms, or of the most chosen ones and of the others together."""
        if self._catalog is None:
            return self.all_stats(self._arms), None
        shown = self.most_chosen(MAX_LISTED)
        others = self._others(set(shown))
        return self.all_stats(shown), others

    def _others(self, shown: set[str]) -> OtherArms | None:
        hidden, total = [name for name in self.names() if name not in shown], ArmSums()
        for sums in (self._sums.others, *map(self._of, hidden)):
            total.merge(sums)
        if not hidden and not total.decisions:
            return None
        return OtherArms(
            arms=len(hidden),
            decisions=total.decisions,
            share=total.decisions / self._sums.decisions if self._sums.decisions else 0.0,
            reward_mean=in_units(total.mean, self._reward_range),
        )

    def _of(self, arm: str) -> ArmSums:
        return self._sums.arms.get(arm) or ArmSums()


def page(experiment: Experiment, query: PageQuery) -> ArmPage:
    """Return a page of the list of arms."""
    arms = Arms(experiment)
    wanted = query.search.casefold()
    found = [name for name in arms.names() if wanted in name.casefold()]
    if query.sort == "name":
        found.sort(reverse=query.descending)
    else:
        sign = -1 if query.descending else 1
        found.sort(key=lambda name: _sort_key(arms.value(name, query.sort), sign))
    shown = found[query.offset : query.offset + query.limit]
    return ArmPage(arms=arms.rows(shown), total=len(found), offset=query.offset)


def _sort_key(value: float | None, sign: int) -> tuple[bool, float]:
    """Sort arms without a value last, in either order."""
    return value is None, 0.0 if value is None else sign * value
