"""The demo: worlds in which there is something to learn, a past, and visitors who keep coming."""

import asyncio
import time
from pathlib import Path
from random import Random

import pytest

from benchmarks.service.server import Server
from glcb.client import Client
from glcb.service.config import ServiceSettings
from glcb.service.demo import WORLDS, history
from glcb.service.demo.world import World
from glcb.service.storage.opening import open_storage
from tests.service.conftest import Serve


def means(world: World, era: int, visitors: int = 150) -> list[dict[str, float]]:
    """Return what every arm brings on average, for each of some visitors."""
    rng = Random(f"test {era}")
    contexts = [world.visitor(rng) for _ in range(visitors)]
    return [
        {arm: sum(world.outcome(rng, who, arm, era) for _ in range(40)) / 40 for arm in world.settings.arms}
        for who in contexts
    ]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_different_visitors_want_different_arms_and_times_change(world: World) -> None:
    shares = []
    for era in (0, 1):
        of_each = means(world, era)
        best = [max(arms, key=lambda arm: arms[arm]) for arms in of_each]
        shares.append({arm: best.count(arm) / len(best) for arm in world.settings.arms})
        assert max(shares[-1].values()) < 0.8  # whoever ignores the context loses
    assert max(abs(shares[0][arm] - shares[1][arm]) for arm in shares[0]) > 0.2


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_rewards_are_possible_even_of_arms_that_nobody_foresaw(world: World) -> None:
    rng = Random("test")
    low, high = (0.0, 1.0) if world.settings.rewards == "binary" else world.settings.rewards
    for arm in [*world.settings.arms, "added later"]:
        for era in (0, 1):
            values = [world.outcome(rng, world.visitor(rng), arm, era) for _ in range(200)]
            assert all(low <= value <= high for value in values)
    assert [world.era_of(n * world.era) for n in range(4)] == [0, 1, 0, 1]


def test_the_past_is_made_up_once(tmp_path: Path) -> None:
    settings = ServiceSettings(data=str(tmp_path / "glcb.db"))
    storage = open_storage(settings)
    try:
        for _ in range(2):
            asyncio.run(history.make_up(storage, settings, WORLDS[:1], bursts=3))
        events = list(storage.events(1, 0))
    finally:
        storage.close()
    decided = [event.at for event in events if event.kind == "decide"]
    assert len(decided) == 3 * history.BURST
    assert sum(event.kind == "reward" for event in events) > 0.7 * len(decided)
    assert time.time() - history.DAYS * 86_400 - 60 < decided[0] < decided[-1] < time.time()


def test_the_demo_moves_and_leaves_nothing_behind(serve: Serve, tmp_path: Path) -> None:
    server = serve(
        "--demo", store=("--host", "127.0.0.1"), folder=tmp_path, environment={"TMPDIR": str(tmp_path)}
    )
    with Client(server.url) as client:
        before = {info.name: info.counts.decisions for info in client.experiments()}
        assert before.keys() == {world.name for world in WORLDS}
        assert all(count >= history.BURST * history.BURSTS for count in before.values())
        deadline = time.monotonic() + 20
        while not all(client.experiment(name).counts["decisions"] > count for name, count in before.items()):
            assert time.monotonic() < deadline, "nobody comes"
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


def test_who_stops_the_demo_while_it_makes_up_the_past_leaves_nothing_behind(tmp_path: Path) -> None:
    server = Server(("--host", "127.0.0.1"), "--demo", folder=tmp_path, environment={"TMPDIR": str(tmp_path)})
    try:
        server.start(wait=False)
        deadline = time.monotonic() + 60
        while "making up" not in server.said():
            assert time.monotonic() < deadline, server.said()
            time.sleep(0.05)
        assert server.stop() == 0
        assert "serving" not in server.said()
        assert list(tmp_path.iterdir()) == []
    finally:
        server.forget()


def test_data_with_keys_is_not_for_the_demo(tmp_path: Path) -> None:
    server = Server(("--data", str(tmp_path / "glcb.db")))
    try:
        assert server.command("keys", "add", "me", "--role", "admin").returncode == 0
        ran = server.command("serve", "--demo", "--port", "0")
        assert ran.returncode == 2
        assert "leave out --data" in " ".join(ran.stderr.split())
    finally:
        server.forget()
