"""The demo: worlds with something to learn, a simulated history, and live visitors."""

import asyncio
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.service.server import Server
from glcb._errors import InvalidSettings
from glcb.client import Client
from glcb.service.config import ServiceSettings
from glcb.service.demo import serve_demo, traffic
from glcb.service.demo.worlds import WORLDS, World
from glcb.service.storage.database import open_database
from tests.service.conftest import Serve


def mean_rewards(world: World, era: int, visitors: int = 150) -> list[dict[str, float]]:
    """Return the mean reward of every arm, for each of some visitors."""
    rng = Random(f"test {era}")
    contexts = [world.visitor(rng) for _ in range(visitors)]
    return [
        {arm: sum(world.reward(rng, who, arm, era) for _ in range(40)) / 40 for arm in world.settings.arms}
        for who in contexts
    ]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_the_best_arm_depends_on_the_visitor_and_the_era(world: World) -> None:
    shares = []
    for era in (0, 1):
        rewards = mean_rewards(world, era)
        best = [max(arms, key=lambda arm: arms[arm]) for arms in rewards]
        shares.append({arm: best.count(arm) / len(best) for arm in world.settings.arms})
        assert max(shares[-1].values()) < 0.8  # no arm is best for most visitors
    assert max(abs(shares[0][arm] - shares[1][arm]) for arm in shares[0]) > 0.2


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_rewards_are_in_range_even_for_arms_added_later(world: World) -> None:
    rng = Random("test")
    low, high = (0.0, 1.0) if world.settings.rewards == "binary" else world.settings.rewards
    for arm in [*world.settings.arms, "added later"]:
        for era in (0, 1):
            values = [world.reward(rng, world.visitor(rng), arm, era) for _ in range(200)]
            assert all(low <= value <= high for value in values)
    assert [world.era_of(n * world.era) for n in range(4)] == [0, 1, 0, 1]


def test_the_history_is_simulated_once(tmp_path: Path) -> None:
    settings = ServiceSettings(data=str(tmp_path / "glcb.db"))
    database = open_database(settings)
    try:
        for _ in range(2):
            asyncio.run(traffic.simulate_history(database, settings, WORLDS[:1], bursts=3))
        events = list(database.events(1, 0))
    finally:
        database.close()
    decisions = [event.at for event in events if event.kind == "decide"]
    assert len(decisions) == 3 * traffic.BURST
    assert sum(event.kind == "reward" for event in events) > 0.7 * len(decisions)
    assert time.time() - traffic.DAYS * 86_400 - 60 < decisions[0] < decisions[-1] < time.time()


@pytest.mark.live
def test_the_demo_has_live_visitors_and_leaves_no_files(serve: Serve, tmp_path: Path) -> None:
    server = serve(
        "--demo", store=("--host", "127.0.0.1"), folder=tmp_path, environment={"TMPDIR": str(tmp_path)}
    )
    with Client(server.url) as client:
        before = {info.name: info.counts.decisions for info in client.experiments()}
        assert before.keys() == {world.name for world in WORLDS}
        assert all(count >= traffic.BURST * traffic.BURSTS for count in before.values())
        deadline = time.monotonic() + 20
        while not all(info.counts.decisions > before[info.name] for info in client.experiments()):
            assert time.monotonic() < deadline, "there are no live visitors"
            time.sleep(0.2)
        paused = client.experiment("homepage")
        paused.pause()
        paused.add_arm("weather")
        paused.resume()
        for name in before:
            lift = client.experiment(name).stats().lift
            assert lift.difference is not None
            assert lift.difference > 0
    assert server.stop() == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.live
def test_a_demo_stopped_during_the_simulation_leaves_no_files(tmp_path: Path) -> None:
    server = Server(("--host", "127.0.0.1"), "--demo", folder=tmp_path, environment={"TMPDIR": str(tmp_path)})
    try:
        server.start(wait=False)
        deadline = time.monotonic() + 60
        while "simulating" not in server.output():
            assert time.monotonic() < deadline, server.output()
            time.sleep(0.05)
        assert server.stop() == 0
        assert "serving" not in server.output()
        assert list(tmp_path.iterdir()) == []
    finally:
        server.close()


@pytest.mark.live
def test_the_demo_rejects_a_database_with_keys(tmp_path: Path) -> None:
    server = Server(("--data", str(tmp_path / "glcb.db")))
    try:
        assert server.command("keys", "add", "me", "--role", "admin").returncode == 0
        ran = server.command("serve", "--demo", "--port", "0")
        assert ran.returncode == 2
        assert "omit --data" in " ".join(ran.stderr.split())
    finally:
        server.close()


@pytest.mark.parametrize("flags", [{"workers": 2}, {"executor": "ray"}, {"inner_address": "127.0.0.1"}])
def test_the_demo_is_one_process(flags: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettings, match="the demo is one process"):
        serve_demo(ServiceSettings(**flags))
