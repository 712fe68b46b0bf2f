"""Counters and latencies of the service in Prometheus format. They contain no keys, contexts or rewards."""

import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from glcb.service.core.engine import Engine

log = logging.getLogger("glcb.service")
T = TypeVar("T")

_SMALLEST_SECONDS = 10e-6
_BUCKETS = 80
_FACTOR = 2**0.25
BOUNDS = tuple(_SMALLEST_SECONDS * _FACTOR**k for k in range(_BUCKETS))
"""Upper bounds of the buckets of a latency histogram, from 10 µs to about 9 s."""
_EXPORT_EVERY = 4
"""Prometheus gets every fourth bound."""
_COMMIT_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_MODEL_OPERATIONS = {"decide": "decide", "rank": "rank", "reward": "learn"}


class LatencyHistogram:
    """Durations in seconds, in buckets whose bounds grow by a factor of 2 ** 0.25."""

    def __init__(self) -> None:
        self.counts = [0] * (_BUCKETS + 1)
        self.total = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        """Add a duration, once or several times."""
        self.total += seconds * times
        self.counts[bisect_left(BOUNDS, seconds)] += times

    @property
    def count(self) -> int:
        """Number of durations."""
        return sum(self.counts)

    def quantile(self, share: float) -> float | None:
        """Return an upper bound of a quantile, at most 19% too large; None without any durations."""
        target = share * self.count
        below = 0
        for bucket, count in enumerate(self.counts):
            below += count
            if count and below >= target:
                return BOUNDS[min(bucket, _BUCKETS - 1)]
        return None


class Activity:
    """Counters of one experiment since the service started, whether it is loaded or not."""

    def __init__(self) -> None:
        self.latency = LatencyHistogram()
        """Time from the request for a decision to its response."""
        self.events: Counter[str] = Counter()
        """Number of events by kind."""
        self.errors: Counter[str] = Counter()
        """Number of error responses by code."""


class HttpMetrics:
    """Counters of the HTTP requests of a process."""

    def __init__(self) -> None:
        self.requests: dict[str, LatencyHistogram] = {}
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.in_flight = 0

    def add_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.statuses[route, status] += 1
        latency = self.requests.get(route)
        if latency is None:
            latency = self.requests[route] = LatencyHistogram()
        latency.add(seconds)

    def http_metrics(self) -> Iterator[Metric]:
        """Yield the counters."""
        requests = CounterMetricFamily("glcb_http_requests", "HTTP requests.", labels=["route", "status"])
        for (route, status), count in sorted(self.statuses.items()):
            requests.add_metric([route, str(status)], count)
        yield requests
        yield _histogram(
            "glcb_http_request_duration_seconds", "Time to the response.", "route", self.requests
        )
        yield GaugeMetricFamily(
            "glcb_http_requests_in_flight", "HTTP requests being processed.", value=self.in_flight
        )


class Metrics(HttpMetrics):
    """Counters of the process. Those of experiments are read from the engine on demand.

    Parameters
    ----------
    engine
        The engine whose experiments are exported.
    """

    def __init__(self, engine: "Engine") -> None:
        super().__init__()
        self._engine = engine
        self.model = {operation: LatencyHistogram() for operation in _MODEL_OPERATIONS.values()}
        self.commits = LatencyHistogram()
        self.clock_regressions = 0
        self._commit_sizes = [0] * (len(_COMMIT_SIZES) + 1)
        self._committed_events = 0

    def add_events(self, kind: str, seconds: float, count: int) -> None:
        """Count events of a batch, each with the mean time that the model needed for it."""
        operation = _MODEL_OPERATIONS.get(kind)
        if operation is not None:
            self.model[operation].add(seconds, count)

    def add_commit(self, events: int, seconds: float) -> None:
        """Count a commit."""
        self.commits.add(seconds)
        self._commit_sizes[sum(events > size for size in _COMMIT_SIZES)] += 1
        self._committed_events += events

    def add_clock_regression(self, seconds: float) -> None:
        """Count an event that reuses the time of the last one because the clock is behind it."""
        self.clock_regressions += 1
        count = self.clock_regressions
        if count & (count - 1) == 0:  # log the 1st, 2nd, 4th, 8th … time
            log.warning("the clock went backward", extra={"seconds": round(seconds, 3), "times": count})

    def text(self, can_access: Callable[[str], bool]) -> bytes:
        """Return all metrics in Prometheus format, with those experiments that the caller can access."""
        return exposition(
            [*self.http_metrics(), *self._process_metrics(), *self._experiment_metrics(can_access)]
        )

    def _process_metrics(self) -> Iterator[Metric]:
        journal = self._engine.journal
        yield _histogram("glcb_model_duration_seconds", "Time spent in the model.", "operation", self.model)
        yield _histogram("glcb_commit_duration_seconds", "Time of a commit.", None, {"": self.commits})
        sizes = HistogramMetricFamily("glcb_commit_events", "Events per commit.")
        sizes.add_metric([], _cumulate(_COMMIT_SIZES, self._commit_sizes), self._committed_events)
        yield sizes
        gauges = {
            "glcb_journal_queued_events": ("Events queued for commit.", journal.depth),
            "glcb_journal_oldest_event_seconds": (
                "Age of the oldest event that is not committed.",
                journal.oldest_age(),
            ),
            "glcb_storage_available": ("1 if the database accepts events.", int(journal.failure is None)),
            "glcb_loaded_experiments": ("Experiments in memory.", len(self._engine.loaded)),
            "glcb_evaluations_active": (
                "Evaluations that are queued or running.",
                self._engine.evaluations.active,
            ),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(name, text, value=value)
        evaluations = CounterMetricFamily(
            "glcb_evaluations", "Evaluations since the start.", labels=["state"]
        )
        for state, count in sorted(self._engine.evaluations.outcomes.items()):
            evaluations.add_metric([state], count)
        yield evaluations
        yield CounterMetricFamily("glcb_commit_failures", "Failed commits.", value=journal.failures)
        yield CounterMetricFamily(
            "glcb_clock_regressions",
            "Events for which the clock was behind the last event.",
            value=self.clock_regressions,
        )

    def _experiment_metrics(self, can_access: Callable[[str], bool]) -> Iterator[Metric]:
        label = ["experiment"]
        decisions = CounterMetricFamily("glcb_decisions", "Decisions since the start.", labels=label)
        rewards = CounterMetricFamily("glcb_rewards", "Rewards since the start.", labels=label)
        events = CounterMetricFamily("glcb_events", "Events since the start.", labels=["experiment", "kind"])
        errors = CounterMetricFamily(
            "glcb_errors", "Error responses since the start.", labels=["experiment", "code"]
        )
        for name, activity in _accessible(self._engine.activity, can_access):
            decisions.add_metric([name], activity.events["decide"])
            rewards.add_metric([name], activity.events["reward"])
            for kind, count in list(activity.events.items()):
                events.add_metric([name, kind], count)
            for code, count in list(activity.errors.items()):
                errors.add_metric([name, code], count)
        yield from (decisions, rewards, events, errors)
        pending = GaugeMetricFamily("glcb_pending_decisions", "Decisions without a reward yet.", labels=label)
        match_rate = GaugeMetricFamily("glcb_match_rate", "Share of decisions with a reward.", labels=label)
        for name, loaded in _accessible(self._engine.loaded, can_access):
            counts = loaded.experiment.bandit.counts
            pending.add_metric([name], counts["pending"])
            if counts["decisions"]:
                match_rate.add_metric([name], counts["rewarded"] / counts["decisions"])
        yield from (pending, match_rate)


def exposition(families: list[Metric]) -> bytes:
    """Return metrics in Prometheus format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families))
    return generate_latest(registry)


class _Families(Collector):
    """Metric families that have been collected already."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """Return the families."""
        return iter(self._families)


def _accessible(items: Mapping[str, T], can_access: Callable[[str], bool]) -> list[tuple[str, T]]:
    return [(name, item) for name, item in list(items.items()) if can_access(name)]


def _histogram(name: str, text: str, label: str | None, values: dict[str, LatencyHistogram]) -> Metric:
    family = HistogramMetricFamily(name, text, labels=[label] if label else None)
    for value, histogram in list(values.items()):
        counts = histogram.counts
        groups = [
            sum(counts[max(0, end - _EXPORT_EVERY + 1) : end + 1])
            for end in range(0, len(BOUNDS), _EXPORT_EVERY)
        ]
        rest = sum(counts) - sum(groups)
        buckets = _cumulate(BOUNDS[::_EXPORT_EVERY], [*groups, rest])
        family.add_metric([value] if label else [], buckets, histogram.total)
    return family


def _cumulate(bounds: tuple[float, ...], counts: list[int]) -> list[tuple[str, float]]:
    total, buckets = 0, []
    for bound, count in zip([f"{bound:.6g}" for bound in bounds] + ["+Inf"], counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets
