"""What the service counts and times, as Prometheus reads it. Neither keys, contexts nor rewards."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from prometheus_client.core import CollectorRegistry, CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import HistogramMetricFamily as Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from glcb.service.histogram import BOUNDS, Times

if TYPE_CHECKING:
    from glcb.service.core.engine import Engine

log = logging.getLogger("glcb.service")
T = TypeVar("T")

_OPERATIONS = {"decide": "decide", "reward": "learn"}
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_EVERY = 4
"""Of the bounds of our histograms, Prometheus gets every fourth."""


class Metrics:
    """Counters of the process; what belongs to an experiment is asked of the engine when somebody looks."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self.model = {operation: Times() for operation in _OPERATIONS.values()}
        self.commits = Times()
        self.requests: dict[str, Times] = {}
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.in_flight = 0
        self.clock_back = 0
        self._sizes = [0] * (len(_SIZES) + 1)
        self._events = 0

    def applied(self, kind: str, seconds: float) -> None:
        """Take the time of an event inside the model."""
        operation = _OPERATIONS.get(kind)
        if operation is not None:
            self.model[operation].add(seconds)

    def committed(self, events: int, seconds: float) -> None:
        """Take the time and the size of a commit."""
        self.commits.add(seconds)
        self._sizes[sum(events > size for size in _SIZES)] += 1
        self._events += events

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Take the time of a request."""
        self.statuses[route, status] += 1
        times = self.requests.get(route)
        if times is None:
            times = self.requests[route] = Times()
        times.add(seconds)

    def clock_went_back(self, seconds: float) -> None:
        """Note that the clock is behind the last event; that event's time is used until it has caught up."""
        self.clock_back += 1
        if self.clock_back & (self.clock_back - 1) == 0:  # the 1st, 2nd, 4th, 8th … time
            log.warning("the clock went back", extra={"seconds": round(seconds, 3), "times": self.clock_back})

    def text(self, sees: Callable[[str], bool]) -> bytes:
        """Return everything as Prometheus reads it, of the experiments that somebody may see."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collected([*self._of_process(), *self._of_experiments(sees)]))
        return generate_latest(registry)

    def _of_process(self) -> Iterator[Metric]:
        journal = self._engine.journal
        requests = CounterMetricFamily("glcb_requests", "Requests.", labels=["route", "status"])
        for (route, status), count in sorted(self.statuses.items()):
            requests.add_metric([route, str(status)], count)
        yield requests
        yield _histogram("glcb_request_seconds", "Time until the answer.", "route", self.requests)
        yield _histogram("glcb_model_seconds", "Time inside the model.", "operation", self.model)
        yield _histogram("glcb_commit_seconds", "Time of a commit.", None, {"": self.commits})
        sizes = Histogram("glcb_commit_events", "Events of a commit.")
        sizes.add_metric([], _cumulated(_SIZES, self._sizes), self._events)
        yield sizes
        gauges = {
            "glcb_requests_in_flight": ("Requests that are being dealt with.", self.in_flight),
            "glcb_journal_depth": ("Events that wait to be committed.", journal.depth),
            "glcb_storage_available": ("Whether the database takes events.", int(journal.trouble is None)),
            "glcb_experiments_loaded": ("Experiments in memory.", len(self._engine.loaded)),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(name, text, value=value)
        yield CounterMetricFamily("glcb_storage_failures", "Commits that failed.", value=journal.generation)
        yield CounterMetricFamily(
            "glcb_clock_back", "Events for which the clock was behind.", value=self.clock_back
        )

    def _of_experiments(self, sees: Callable[[str], bool]) -> Iterator[Metric]:
        events = CounterMetricFamily("glcb_events", "Events since the start.", labels=["experiment", "kind"])
        refused = CounterMetricFamily(
            "glcb_refused", "Refusals since the start.", labels=["experiment", "code"]
        )
        for name, activity in _seen(self._engine.activity, sees):
            for kind, count in list(activity.happened.items()):
                events.add_metric([name, kind], count)
            for code, count in list(activity.refused.items()):
                refused.add_metric([name, code], count)
        yield events
        yield refused
        waiting = GaugeMetricFamily(
            "glcb_waiting", "Decisions that wait for a reward.", labels=["experiment"]
        )
        joined = GaugeMetricFamily(
            "glcb_join_rate", "Share of decisions with a reward.", labels=["experiment"]
        )
        for name, live in _seen(self._engine.loaded, sees):
            counts = live.experiment.bandit.counts
            waiting.add_metric([name], counts["pending"])
            if counts["decisions"]:
                joined.add_metric([name], counts["rewarded"] / counts["decisions"])
        yield waiting
        yield joined


class _Collected(Collector):
    """Numbers that were collected already."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """Return them."""
        return iter(self._families)


def _seen(named: Mapping[str, T], sees: Callable[[str], bool]) -> list[tuple[str, T]]:
    return [(name, one) for name, one in list(named.items()) if sees(name)]


def _histogram(name: str, text: str, label: str | None, times: dict[str, Times]) -> Metric:
    family = Histogram(name, text, labels=[label] if label else None)
    for value, own in list(times.items()):
        groups = [
            sum(own.counts[max(0, end - _EVERY + 1) : end + 1]) for end in range(0, len(BOUNDS), _EVERY)
        ]
        rest = sum(own.counts) - sum(groups)
        buckets = _cumulated(BOUNDS[::_EVERY], [*groups, rest])
        family.add_metric([value] if label else [], buckets, own.total)
    return family


def _cumulated(bounds: tuple[float, ...], counts: list[int]) -> list[tuple[str, float]]:
    total, buckets = 0, []
    for bound, count in zip([f"{bound:.6g}" for bound in bounds] + ["+Inf"], counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets
