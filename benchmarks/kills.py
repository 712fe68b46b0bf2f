"""Killing ``glcb serve`` at random moments under load: part of ``make soak``.

After every kill the service is started again on what is left. Everything that it acknowledged must be there,
once, as it was acknowledged; what was in doubt is asked again; and a replay of the whole log must come to the
same state, bit for bit (``glcb verify``).
"""

import argparse
import asyncio
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.service import postgres
from benchmarks.service.audit import audit, replay
from benchmarks.service.server import Server
from benchmarks.service.traffic import EXPERIMENT, Ledger, Traffic, ask_again

VISITORS = 8
LONGEST_LIFE = 1.5
"""Seconds under load before the kill, at most."""
KILLED_AT_START = 0.2
"""This share of the kills falls into the start that follows a kill, while the state is being restored."""
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"policy": "linucb", "reward_timeout": 1.0, "default_reward": 0.0},
    {
        "policy": "lints",
        "rewards": [0, 2],
        "reward_timeout": 0.5,
        "reward_aggregation": "sum",
        "max_pending": 100,
    },
)
"""Experiments of several kinds take turns: plain, with rewards that come too late, with sums of rewards."""
KILLS_PER_EXPERIMENT = 10
"""Then a fresh experiment takes over, so that a replay of the whole log stays short."""
SNAPSHOTS = ("--set", "snapshot_events=500")
"""Often enough that kills fall into the writing of a snapshot too."""


@dataclass
class Tally:
    """What a campaign of kills went through."""

    kills: int = 0
    kills_at_start: int = 0
    decisions: int = 0
    rewards: int = 0
    doubtful: int = 0
    restarts: list[float] = field(default_factory=list)


class Campaign:
    """One server over one store, killed again and again."""

    def __init__(self, store: Sequence[str], seed: int) -> None:
        self.server = Server(store, *SNAPSHOTS)
        self.tally = Tally()
        self._rng = random.Random(seed)

    def run(self, kills: int) -> Tally:
        """Kill so many times; raise when anything is lost."""
        self.server.start()
        while self.tally.kills < kills:
            self._one_experiment(min(KILLS_PER_EXPERIMENT, kills - self.tally.kills))
            print(f"{self.tally.kills} of {kills} kills", file=sys.stderr, flush=True)
        self.server.stop()
        return self.tally

    def forget(self) -> None:
        """Remove what is left."""
        self.server.forget()

    def _one_experiment(self, kills: int) -> None:
        name = f"after-{self.tally.kills}-kills"
        kind = KINDS[self.tally.kills // KILLS_PER_EXPERIMENT % len(KINDS)]
        path = f"/v1/experiments/{name}"
        made = self.server.client.put(path, {**EXPERIMENT, **kind})
        assert made.status == 201, made
        ledger, goal = Ledger(), self.tally.kills + kills
        while self.tally.kills < goal:
            self._kill_under_load(name, ledger)
            self._start_again(goal)
            self._look(name, ledger)
        self.tally.decisions += len(ledger.decisions)
        self.tally.rewards += len(ledger.rewards)
        assert self.server.client.ask("DELETE", path).status == 204

    def _kill_under_load(self, name: str, ledger: Ledger) -> None:
        life, known = self._rng.uniform(0.0, LONGEST_LIFE), len(ledger.doubtful)
        assassin = threading.Timer(life, self.server.kill)
        assassin.start()
        traffic = Traffic(name, ledger, self._rng.getrandbits(32))
        asyncio.run(traffic.run(self.server.url, VISITORS, LONGEST_LIFE + 10))
        assassin.join()
        self.tally.kills += 1
        self.tally.doubtful += len(ledger.doubtful) - known

    def _start_again(self, goal: int) -> None:
        while self.tally.kills < goal and self._rng.random() < KILLED_AT_START:
            self.server.start(wait=False)
            time.sleep(self._rng.uniform(0.0, LONGEST_LIFE))
            self.server.kill()
            self.tally.kills += 1
            self.tally.kills_at_start += 1
        begun = time.perf_counter()
        self.server.start()
        self.tally.restarts.append(time.perf_counter() - begun)

    def _look(self, name: str, ledger: Ledger) -> None:
        ask_again(self.server.client, ledger)
        events = self.server.client.events(name)
        audit(ledger, events)
        view = self.server.client.get(f"/v1/experiments/{name}").data
        if view["reward_timeout"] is None:  # then nothing but the creation and these can have happened
            assert [event["sequence"] for event in events] == list(range(2, view["sequence"] + 1)), "a gap"
        counts = view["counts"]
        assert 2 * counts["decisions"] == sum(counts.values()), counts
        replay(self.server.store)


@contextmanager
def stores(names: Sequence[str]) -> Iterator[dict[str, list[str]]]:
    """Prepare a place for the data of each kind, by name."""
    with tempfile.TemporaryDirectory(prefix="glcb-kills-") as folder:
        found = {"sqlite": ["--data", f"{folder}/glcb.db"]}
        if "postgres" not in names:
            yield found
            return
        with postgres.cluster() as cluster:
            yield {**found, "postgres": ["--database", cluster.url]}


def main() -> None:
    """Kill, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--stores", nargs="+", choices=("sqlite", "postgres"), default=["sqlite", "postgres"])
    parser.add_argument("--seed", type=int, default=10_000)
    chosen = parser.parse_args()
    names = [name for name in chosen.stores if name != "postgres" or postgres.binaries()]
    if len(names) < len(chosen.stores):
        print("PostgreSQL is not here: left out")
    with stores(names) as found:
        for name in names:
            campaign, start = Campaign(found[name], chosen.seed), time.perf_counter()
            try:
                tally = campaign.run(chosen.kills)
            finally:
                campaign.forget()
            print(
                f"{name}: {tally.kills} kills ({tally.kills_at_start} of them while starting) in "
                f"{time.perf_counter() - start:,.0f} s; {tally.decisions:,} decisions and {tally.rewards:,} "
                f"rewards acknowledged, all there, none twice; {tally.doubtful:,} requests in doubt; every "
                f"replay agrees; restart {max(tally.restarts):.1f} s at most",
                flush=True,
            )


if __name__ == "__main__":
    main()
