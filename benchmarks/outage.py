"""Database outage: stop PostgreSQL under load and start it again; part of ``make soak``."""

import argparse
import asyncio
import time
from dataclasses import dataclass

from benchmarks.service import postgres
from benchmarks.service.audit import audit, replay
from benchmarks.service.server import Server, serving
from benchmarks.service.traffic import EXPERIMENT, Ledger, Traffic, retry_unanswered

CONNECTIONS = 8
CALM = 2.0
"""Seconds of normal traffic before and after the outage."""
RECOVERY_LIMIT = 30.0
"""Seconds within which the service must recover once the database is available."""


@dataclass(frozen=True)
class Outage:
    """The outage as observed by clients."""

    decisions: int
    rewards: int
    refused: int
    slowest: float
    """Seconds of the slowest response."""
    recovery: float
    """Seconds from the start of the database to the next acknowledged decision."""


def outage(server: Server, cluster: postgres.Cluster, seconds: float, mode: str = "immediate") -> Outage:
    """Stop the database for ``seconds`` under load; raise if anything acknowledged is lost."""
    assert server.client.put("/v1/experiments/outage", {**EXPERIMENT, "policy": "linucb"}).status == 201
    ledger = Ledger()
    traffic = Traffic("outage", ledger, seed=10_000)
    recovery = asyncio.run(_run(server, cluster, traffic, seconds, mode))
    assert set(ledger.refused) == {503}, ledger.refused
    refused = ledger.refused[503]
    retry_unanswered(server.client, ledger)
    audit(ledger, server.client.events("outage"))
    replay(server.store)
    return Outage(len(ledger.decisions), len(ledger.rewards), refused, traffic.slowest, recovery)


async def _run(
    server: Server, cluster: postgres.Cluster, traffic: Traffic, seconds: float, mode: str
) -> float:
    requests = asyncio.create_task(traffic.run(server.url, CONNECTIONS, CALM + seconds + RECOVERY_LIMIT + 30))
    await asyncio.sleep(CALM)
    await asyncio.to_thread(cluster.stop, mode)
    await asyncio.sleep(seconds)
    before = len(traffic.ledger.decisions)
    await asyncio.to_thread(cluster.start)
    start = time.monotonic()
    while len(traffic.ledger.decisions) == before:
        assert time.monotonic() - start < RECOVERY_LIMIT, "the service did not recover"
        await asyncio.sleep(0.01)
    recovery = time.monotonic() - start
    await asyncio.sleep(CALM)
    requests.cancel()
    (end,) = await asyncio.gather(requests, return_exceptions=True)
    if isinstance(end, Exception):
        raise end
    return recovery


def main() -> None:
    """Run the outage with both shutdown modes and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    chosen = parser.parse_args()
    if not postgres.binaries():
        print("PostgreSQL is not installed: skipped")
        return
    for mode in ("fast", "immediate"):
        with postgres.cluster() as cluster, serving(["--database", cluster.url]) as server:
            result = outage(server, cluster, chosen.seconds, mode)
        print(
            f"PostgreSQL stopped ({mode}) for {chosen.seconds:.0f} s under load: {result.refused:,} requests "
            f"rejected, slowest response {result.slowest:.2f} s, recovered {result.recovery:.2f} s after the "
            f"restart; {result.decisions:,} decisions and {result.rewards:,} rewards acknowledged, "
            "all present",
            flush=True,
        )


if __name__ == "__main__":
    main()
