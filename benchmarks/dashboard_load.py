"""Dashboard load: how fast the dashboard of a large experiment opens, and how it affects decision latency.

Part of ``make soak``. The experiment has 50 arms and 8 segment features. Decisions arrive at a constant rate,
one every ten milliseconds. Three cases alternate: no dashboard, only the requests of a dashboard, and a
dashboard open in Chromium on the same machine.
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
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from benchmarks.endurance import BATCH, BATCH_TIMEOUT
from benchmarks.service.client import Client
from benchmarks.service.server import Server
from benchmarks.service.wire import connect, post
from benchmarks.statistics import ARMS, context
from tests.bench.browser import browser, chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATH = "/v1/experiments/shop"
REQUESTS = ("", "/stats", "/curves", "/segments", f"/curves?arm={quote(ARMS[0])}")
"""The requests of a dashboard."""
CONNECTIONS = 4
PERIOD = 0.04
"""Seconds between two decisions of a connection."""
OPENING_LIMIT = 2.0
"""Seconds within which the dashboard of a million decisions must open."""


def fill(client: Client, decisions: int, policy: str) -> None:
    """Create the experiment and make decisions, each with a reward."""
    made = client.put(PATH, {"arms": list(ARMS), "policy": policy, "seed": 10_000})
    assert made.status == 201, made
    rng = random.Random(10_000)
    for _ in range(0, decisions, BATCH):
        contexts = [{"context": context(rng)} for _ in range(BATCH)]
        decided = client.post(f"{PATH}/decisions/batch", {"decisions": contexts}).data["results"]
        rewards = [{"id": one["id"], "value": int(rng.random() < 0.1)} for one in decided]
        assert client.post(f"{PATH}/rewards", {"rewards": rewards}).status == 200


def request_seconds(client: Client) -> dict[str, float]:
    """Return the median time of each request of a dashboard."""
    medians = {}
    for request in REQUESTS:
        taken = []
        for _ in range(11):
            start = time.perf_counter()
            answer = client.get(PATH + request)
            taken.append(time.perf_counter() - start)
            assert answer.status == 200, answer
        medians[request] = statistics.median(taken)
        print(f"GET …{request}: {1e3 * medians[request]:.1f} ms, {len(answer.content):,} bytes", flush=True)
    return medians


def _wait_until_shown(page: "Page") -> None:
    """Wait for the key figures, all charts and the table of arms."""
    page.locator(".key-figures .lift .number").wait_for()
    for title in ("Lift over time", "Recent reward", "Recent share of each arm"):
        page.get_by_role("region", name=title, exact=True).locator("canvas").wait_for()
    page.locator(".arms tbody tr").nth(len(ARMS) - 1).wait_for()


def opening_seconds(running: "Browser", url: str) -> float:
    """Open the dashboard in a new browser profile; return the seconds until numbers and charts are shown."""
    context = running.new_context(viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        start = time.perf_counter()
        page.goto(url)
        _wait_until_shown(page)
        return time.perf_counter() - start
    finally:
        context.close()


async def _send_decisions(url: str, until: float, taken: list[float]) -> None:
    wire, rng = await connect(url), random.Random(10_000)
    while time.monotonic() < until:
        sent = time.monotonic()
        body = json.dumps({"context": context(rng)}).encode()
        start = time.perf_counter()
        status, answer = await wire.ask(post(f"{PATH}/decisions", body))
        taken.append(time.perf_counter() - start)
        assert status == 200, answer
        path = f"{PATH}/decisions/{json.loads(answer)['id']}/reward"
        status, answer = await wire.ask(post(path, b'{"value":1}'))
        assert status == 200, answer
        await asyncio.sleep(max(0.0, PERIOD - (time.monotonic() - sent)))
    wire.close()


def decision_seconds(url: str, seconds: float) -> list[float]:
    """Send decisions at a constant rate; return their durations in seconds."""
    taken: list[float] = []
    until = time.monotonic() + seconds

    async def send_all() -> None:
        await asyncio.gather(*(_send_decisions(url, until, taken) for _ in range(CONNECTIONS)))

    stream = threading.Thread(target=lambda: asyncio.run(send_all()))
    stream.start()
    stream.join()
    return taken


@contextmanager
def _dashboard_requests(server: Server) -> Iterator[None]:
    """Send the requests of a dashboard, as often as it does."""
    ended = threading.Event()

    def poll() -> None:
        while not ended.wait(2.0):
            for request in REQUESTS:
                assert server.client.get(PATH + request).status == 200

    polling = threading.Thread(target=poll)
    polling.start()
    try:
        yield
    finally:
        ended.set()
        polling.join()


def compare(server: Server, running: "Browser", seconds: float, rounds: int) -> dict[str, list[float]]:
    """Return the decision times of each of the three cases."""
    times: dict[str, list[float]] = {"no dashboard": [], "requests only": [], "dashboard open": []}
    page = running.new_page()
    for _ in range(rounds):
        times["no dashboard"] += decision_seconds(server.url, seconds)
        with _dashboard_requests(server):
            times["requests only"] += decision_seconds(server.url, seconds)
        page.goto(f"{server.url}/#/shop")
        _wait_until_shown(page)
        times["dashboard open"] += decision_seconds(server.url, seconds)
        page.goto("about:blank")
    return times


def run(folder: Path, decisions: int, policy: str, seconds: float, rounds: int) -> dict[str, Any]:
    """Send ``decisions`` decisions to a server, then measure its dashboard; print results as they arrive."""
    server = Server(["--data", str(folder / "dashboard.db")])
    try:
        server.start()
        fill(replace(server.client, timeout=BATCH_TIMEOUT), decisions, policy)
        requests = request_seconds(server.client)
        with browser() as running:
            opened = [opening_seconds(running, f"{server.url}/#/shop") for _ in range(5)]
            print(
                f"dashboard of {decisions:,} decisions: opens in {statistics.median(opened):.2f} s, median "
                f"of {len(opened)}",
                flush=True,
            )
            table = {
                name: _percentiles(name, taken)
                for name, taken in compare(server, running, seconds, rounds).items()
            }
            server.stop()
            server.start()
            unloaded = opening_seconds(running, f"{server.url}/#/shop")
            print(f"opens in {unloaded:.2f} s if the experiment is not loaded yet", flush=True)
    finally:
        server.close()
    return {
        "decisions": decisions,
        "opening_s": opened,
        "opening_unloaded_s": unloaded,
        "request_s": requests,
        "times": table,
    }


def _percentiles(name: str, taken: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(taken, n=100)
    p50, p99 = 1e3 * cuts[49], 1e3 * cuts[98]
    print(f"{name:>15}: decision p50 {p50:.2f} ms, p99 {p99:.2f} ms ({len(taken):,})", flush=True)
    return {"decisions": len(taken), "p50_ms": p50, "p99_ms": p99}


def main() -> None:
    """Measure, print and write dashboard_load.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=1_000_000)
    parser.add_argument("--policy", default="glcb")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds per case and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    chosen = parser.parse_args()
    if chromium() is None:
        print("Chromium is not installed: skipped")
        return
    with tempfile.TemporaryDirectory(prefix="glcb-dashboard-") as folder:
        results = run(Path(folder), chosen.decisions, chosen.policy, chosen.seconds, chosen.rounds)
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "dashboard_load.json").write_text(json.dumps(results, indent=1) + "\n")
    assert statistics.median(results["opening_s"]) <= OPENING_LIMIT, (
        f"the dashboard took more than {OPENING_LIMIT} s to open"
    )


if __name__ == "__main__":
    main()
