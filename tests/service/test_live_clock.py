"""The system clock is set back and forth while the service runs."""

import os
import time
from pathlib import Path

import pytest

from benchmarks.service.client import Client
from tests.service.conftest import Serve
from tests.support.bandits import counts_of

pytestmark = pytest.mark.live

PATH = "/v1/experiments/e"
HOUR = 3600
_SITE = """
import pathlib, time
real, shift = time.time, pathlib.Path(__file__).with_name("shift")
time.time = lambda: real() + float(shift.read_text())
"""
"""Python imports this first. It shifts the service's clock by the number of seconds in a file."""


def _decide_and_reward(client: Client) -> None:
    decision = client.post(f"{PATH}/decisions", {"context": {"x": 1}})
    assert decision.status == 200, decision
    reward = client.post(f"{PATH}/decisions/{decision.data['id']}/reward", {"value": 1})
    assert reward.status == 200, reward


def test_event_times_never_decrease(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_SITE)
    shift = tmp_path / "shift"
    shift.write_text("0")
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    server = serve("--set", "clock_hold_seconds=1", environment={"PYTHONPATH": os.pathsep.join(paths)})
    made = server.client.put(PATH, {"arms": ["a", "b"], "policy": "linucb", "reward_timeout": HOUR})
    assert made.status == 201
    _decide_and_reward(server.client)
    shift.write_text(str(-3 * HOUR))
    _decide_and_reward(server.client)
    server.kill()
    server.start()
    _decide_and_reward(server.client)
    late = server.client.post(f"{PATH}/decisions", {"context": {"x": 2}}).data["id"]
    shift.write_text(str(2 * HOUR))
    _decide_and_reward(server.client)
    time.sleep(2.5)  # longer than clock_hold_seconds and the interval of the periodic work
    _decide_and_reward(server.client)
    assert server.client.post(f"{PATH}/decisions/{late}/reward", {"value": 1}).code == "closed_decision"
    times = [event["time"] for event in server.client.events("e")]
    assert times == sorted(times)
    assert times[0] < times[-1]
    counts = server.client.get(PATH).data["counts"]
    assert counts == counts_of(decisions=6, rewarded=5, timed_out=1)
    assert server.command("audit").returncode == 0
