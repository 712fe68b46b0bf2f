"""The dashboard of an experiment with a million decisions: how fast it opens, and whether decisions feel it.

Part of ``make soak``. A visitor comes every ten milliseconds, whoever looks. Three cases take turns: nobody
looks, the questions of a dashboard are asked without a browser, a dashboard is open in Chromium beside it.
"""

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import endurance
from benchmarks.service.server import Server
from benchmarks.service.wire import connect, post
from tests.bench.browser import browser, chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CONNECTIONS = 4
PAUSE = 0.04
"""Seconds from one visitor of a connection to its next."""
LONGEST_OPENING = 2.0
"""Seconds until the dashboard of a million decisions must be there."""


def opening_seconds(running: "Browser", url: str) -> float:
    """Open the dashboard in a fresh profile; return the time until numbers and charts are there."""
    context = running.new_context(viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        start = time.perf_counter()
        page.goto(url)
        page.locator(".chart canvas").nth(1).wait_for()
        page.locator(".arms tbody tr").first.wait_for()
        return time.perf_counter() - start
    finally:
        context.close()


async def _visit(url: str, until: float, taken: list[float]) -> None:
    wire, rng = await connect(url), random.Random(10_000)
    while time.monotonic() < until:
        begun = time.monotonic()
        context = {f"f{i:02}": rng.random() for i in range(endurance.FEATURES)}
        body = json.dumps({"context": context}).encode()
        start = time.perf_counter()
        status, answer = await wire.ask(post(f"{endurance.PATH}/decisions", body))
        taken.append(time.perf_counter() - start)
        assert status == 200, answer
        path = f"{endurance.PATH}/decisions/{json.loads(answer)['id']}/reward"
        status, answer = await wire.ask(post(path, b'{"value":1}'))
        assert status == 200, answer
        await asyncio.sleep(max(0.0, PAUSE - (time.monotonic() - begun)))
    wire.close()


def decisions(url: str, seconds: float) -> list[float]:
    """Return how long the decisions of a steady stream took, in seconds."""
    taken: list[float] = []
    until = time.monotonic() + seconds

    async def all_of_them() -> None:
        await asyncio.gather(*(_visit(url, until, taken) for _ in range(CONNECTIONS)))

    stream = threading.Thread(target=lambda: asyncio.run(all_of_them()))
    stream.start()
    stream.join()
    return taken


@contextmanager
def _asked(server: Server) -> Iterator[None]:
    """Ask what a dashboard asks, as often as it does."""
    ended = threading.Event()

    def ask() -> None:
        while not ended.wait(2.0):
            for path in (endurance.PATH, f"{endurance.PATH}/stats"):
                assert server.client.get(path).status == 200

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        ended.set()
        asking.join()


def compare(server: Server, running: "Browser", seconds: float, rounds: int) -> dict[str, list[float]]:
    """Return the times of decisions while nobody looks, questions are asked, and a dashboard is open."""
    found: dict[str, list[float]] = {"nobody looks": [], "questions only": [], "dashboard open": []}
    page = running.new_page()
    for _ in range(rounds):
        found["nobody looks"] += decisions(server.url, seconds)
        with _asked(server):
            found["questions only"] += decisions(server.url, seconds)
        page.goto(f"{server.url}/#/endurance")
        page.locator(".chart canvas").nth(1).wait_for()
        found["dashboard open"] += decisions(server.url, seconds)
        page.goto("about:blank")
    return found


def run(folder: Path, events: int, policy: str, seconds: float, rounds: int) -> dict[str, Any]:
    """Lead a server through so many decisions, then look at it; print what is found as it is found."""
    server = Server(["--data", str(folder / "watched.db")])
    try:
        server.start()
        endurance.create(server.client, policy)
        endurance.live(server, events, marks=1)
        with browser() as running:
            opened = [opening_seconds(running, f"{server.url}/#/endurance") for _ in range(5)]
            size = len(server.client.get(f"{endurance.PATH}/stats").content)
            print(
                f"dashboard of {events:,} decisions: open after {statistics.median(opened):.2f} s, median of "
                f"{len(opened)}; one answer has {size:,} bytes",
                flush=True,
            )
            table = {
                name: _told(name, taken) for name, taken in compare(server, running, seconds, rounds).items()
            }
            server.stop()
            server.start()
            fresh = opening_seconds(running, f"{server.url}/#/endurance")
            print(f"open after {fresh:.2f} s if the experiment is not loaded yet", flush=True)
    finally:
        server.forget()
    return {
        "decisions": events,
        "opening_s": opened,
        "opening_fresh_s": fresh,
        "stats_bytes": size,
        "times": table,
    }


def _told(name: str, taken: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(taken, n=100)
    p50, p99 = 1e3 * cuts[49], 1e3 * cuts[98]
    print(f"{name:>15}: decision p50 {p50:.2f} ms, p99 {p99:.2f} ms ({len(taken):,})", flush=True)
    return {"decisions": len(taken), "p50_ms": p50, "p99_ms": p99}


def main() -> None:
    """Measure, print, and keep what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=1_000_000)
    parser.add_argument("--policy", default="glcb")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each case, in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    chosen = parser.parse_args()
    if chromium() is None:
        print("Chromium is not here: the dashboard is not measured")
        return
    with tempfile.TemporaryDirectory(prefix="glcb-watched-") as folder:
        found = run(Path(folder), chosen.decisions, chosen.policy, chosen.seconds, chosen.rounds)
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "watched.json").write_text(json.dumps(found, indent=1) + "\n")
    assert statistics.median(found["opening_s"]) <= LONGEST_OPENING, "the dashboard opens too slowly"


if __name__ == "__main__":
    main()
