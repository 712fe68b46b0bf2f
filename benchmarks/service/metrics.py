"""Read the Prometheus metrics of the service."""

import math

from benchmarks.service.client import Client

DECIDE = 'glcb_model_duration_seconds{operation="decide"}'
LEARN = 'glcb_model_duration_seconds{operation="learn"}'
COMMIT = "glcb_commit_duration_seconds"
COMMIT_EVENTS = "glcb_commit_events"


def read(client: Client) -> dict[str, float]:
    """Return the samples by name and labels."""
    answer = client.get("/metrics")
    assert answer.status == 200, answer
    lines = (line for line in answer.content.decode().splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def difference(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Return the increase of each sample."""
    return {name: value - before.get(name, 0.0) for name, value in after.items()}


def mean(samples: dict[str, float], name: str) -> float:
    """Return the mean of a histogram or summary; NaN without observations."""
    bare, brace, labels = name.partition("{")
    count = samples.get(f"{bare}_count{brace}{labels}", 0.0)
    return samples[f"{bare}_sum{brace}{labels}"] / count if count else math.nan
