"""Counters and latencies of the service in Prometheus format. They contain no keys, contexts or rewards."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

_SMALLEST_SECONDS = 10e-6
_BUCKETS = 80
_FACTOR = 2**0.25
BOUNDS = tuple(_SMALLEST_SECONDS * _FACTOR**k for k in range(_BUCKETS))
"""Upper bounds of the buckets of a latency histogram, from 10 µs to about 9 s."""
_EXPORT_EVERY = 4
"""Prometheus gets every fourth bound."""


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
        yield histogram_family(
            "glcb_http_request_duration_seconds", "Time to the response.", "route", self.requests
        )
        yield GaugeMetricFamily(
            "glcb_http_requests_in_flight", "HTTP requests being processed.", value=self.in_flight
        )


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


def histogram_family(name: str, text: str, label: str | None, values: dict[str, LatencyHistogram]) -> Metric:
    """Return the family of histograms with the values of a label, or of a single one without a label."""
    family = HistogramMetricFamily(name, text, labels=[label] if label else None)
    for value, histogram in list(values.items()):
        counts = histogram.counts
        groups = [
            sum(counts[max(0, end - _EXPORT_EVERY + 1) : end + 1])
            for end in range(0, len(BOUNDS), _EXPORT_EVERY)
        ]
        rest = sum(counts) - sum(groups)
        buckets = cumulative_buckets(BOUNDS[::_EXPORT_EVERY], [*groups, rest])
        family.add_metric([value] if label else [], buckets, histogram.total)
    return family


def cumulative_buckets(bounds: tuple[float, ...], counts: list[int]) -> list[tuple[str, float]]:
    """Return the bounds of buckets with the number of values up to each."""
    total, buckets = 0, []
    for bound, count in zip([f"{bound:.6g}" for bound in bounds] + ["+Inf"], counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets
