"""The metrics of an engine: counters of its process, and what its experiments count."""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from glcb.service.process.metrics import (
    HttpMetrics,
    LatencyHistogram,
    cumulative_buckets,
    exposition,
    histogram_family,
)

if TYPE_CHECKING:
    from glcb.service.engine.engine import Engine

log = logging.getLogger("glcb.service")
T = TypeVar("T")

_COMMIT_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_MODEL_OPERATIONS = {"decide": "decide", "rank": "rank", "reward": "learn"}


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
        yield histogram_family(
            "glcb_model_duration_seconds", "Time spent in the model.", "operation", self.model
        )
        yield histogram_family("glcb_commit_duration_seconds", "Time of a commit.", None, {"": self.commits})
        sizes = HistogramMetricFamily("glcb_commit_events", "Events per commit.")
        sizes.add_metric([], cumulative_buckets(_COMMIT_SIZES, self._commit_sizes), self._committed_events)
        yield sizes
        gauges = {
            "glcb_journal_queued_events": ("Events queued for commit.", journal.depth),
            "glcb_journal_oldest_event_seconds": (
                "Age of the oldest event that is not committed.",
                journal.oldest_age(),
            ),
            "glcb_storage_available": ("1 if the database accepts events.", int(journal.failure is None)),
            "glcb_loaded_experiments": ("Experiments in memory.", len(self._engine.loaded)),
            "glcb_unopened_experiments": (
                "Experiments whose last events have not been replayed since the start.",
                len(self._engine.cache.unopened),
            ),
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


def _accessible(items: Mapping[str, T], can_access: Callable[[str], bool]) -> list[tuple[str, T]]:
    return [(name, item) for name, item in list(items.items()) if can_access(name)]
