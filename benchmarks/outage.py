"""The database goes away under load and comes back: part of ``make soak``."""

import argparse
import asyncio
import time
from dataclasses import dataclass

from benchmarks.service import postgres
from benchmarks.service.audit import audit, replay
from benchmarks.service.server import Server, serving
from benchmarks.service.traffic import EXPERIMENT, Ledger, Traffic, ask_again

VISITORS = 8
CALM = 2.0
"""Seconds of ordinary traffic before it goes."""
SOON = 30.0
"""Seconds within which the service must be back once the database is."""


@dataclass(frozen=True)
class Outage:
    """What the visitors saw."""

    decisions: int
    rewards: int
    refused: int
    slowest: float
    """Seconds that the slowest answer took."""
    back: float
    """Seconds from the return of the database to the next decision that was acknowledged."""


def outage(server: Server, cluster: postgres.Cluster, seconds: float, mode: str = "immediate") -> Outage:
    """Take the database away for so long while visitors come; raise when anything acknowledged is lost."""
    assert server.client.put("/v1/experiments/outage", {**EXPERIMENT, "policy": "linucb"}).status == 201
    ledger = Ledger()
    traffic = Traffic("outage", ledger, seed=10_000)
    back = asyncio.run(_course(server, cluster, traffic, seconds, mode))
    assert set(ledger.refused) == {503}, ledger.refused
    refused = ledger.refused[503]
    ask_again(server.client, ledger)
    audit(ledger, server.client.events("outage"))
    replay(server.store)
    return Outage(len(ledger.decisions), len(ledger.rewards), refused, traffic.slowest, back)


async def _course(
    server: Server, cluster: postgres.Cluster, traffic: Traffic, seconds: float, mode: str
) -> float:
    visits = asyncio.create_task(traffic.run(server.url, VISITORS, CALM + seconds + SOON + 30))
    await asyncio.sleep(CALM)
    await asyncio.to_thread(cluster.stop, mode)
    await asyncio.sleep(seconds)
    known = len(traffic.ledger.decisions)
    await asyncio.to_thread(cluster.start)
    start = time.monotonic()
    while len(traffic.ledger.decisions) == known:
        assert time.monotonic() - start < SOON, "the service does not come back"
        await asyncio.sleep(0.01)
    back = time.monotonic() - start
    await asyncio.sleep(CALM)
    visits.cancel()
    (end,) = await asyncio.gather(visits, return_exceptions=True)
    if isinstance(end, Exception):
        raise end
    return back


def main() -> None:
    """Take the database away, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    chosen = parser.parse_args()
    if not postgres.binaries():
        print("PostgreSQL is not here: left out")
        return
    for mode in ("fast", "immediate"):
        with postgres.cluster() as cluster, serving(["--database", cluster.url]) as server:
            found = outage(server, cluster, chosen.seconds, mode)
        print(
            f"PostgreSQL stopped ({mode}) for {chosen.seconds:.0f} s under load: {found.refused:,} requests "
            f"refused, the slowest answer took {found.slowest:.2f} s, deciding again {found.back:.2f} s "
            f"after its return; {found.decisions:,} decisions and {found.rewards:,} rewards acknowledged, "
            "all there",
            flush=True,
        )


if __name__ == "__main__":
    main()
