"""The time of the service: jumps of the system clock, and what is not pruned because of them."""

from pathlib import Path

import pytest

from glcb.service.process.clock import PlausibleClock
from tests.support.builders import settings
from tests.support.engine_harness import decide, decide_and_reward, run_engine

DAY = 86_400.0
YEARS = 2 * 365 * DAY
START = 1_000_000_000.0
HOLD = 300.0


class Hardware:
    """A system clock and an uptime."""

    def __init__(self, wall: float = START) -> None:
        self.shift = wall
        self.seconds = 0.0

    def wall(self) -> float:
        return self.shift + self.seconds

    def uptime(self) -> float:
        return 5000.0 + self.seconds

    def clock(self) -> PlausibleClock:
        return PlausibleClock(HOLD, self.wall, self.uptime)


def test_it_follows_small_corrections_at_once() -> None:
    hardware = Hardware()
    clock = hardware.clock()
    hardware.shift += 0.9
    assert clock() == START + 0.9
    hardware.shift -= 0.5
    assert clock() == START + 0.4
    assert clock.is_settled


@pytest.mark.parametrize("jump", [YEARS, 3600.0, 2.0, -2.0, -3600.0, -YEARS])
def test_a_jump_that_is_taken_back_leaves_no_trace(jump: float) -> None:
    hardware = Hardware()
    clock = hardware.clock()
    hardware.shift += jump
    for _ in range(10):
        hardware.seconds += 20.0
        assert clock() == START + hardware.seconds
        assert not clock.is_settled
    hardware.shift -= jump
    hardware.seconds += 1.0
    assert clock() == START + hardware.seconds
    assert clock.is_settled


def test_a_jump_ahead_that_lasts_is_followed_but_nothing_is_pruned_for_a_day() -> None:
    hardware = Hardware()
    clock = hardware.clock()
    hardware.shift += YEARS
    assert clock() == START
    hardware.seconds = HOLD
    assert clock() == START + HOLD + YEARS
    assert not clock.is_settled
    hardware.seconds += DAY
    assert clock.is_settled


def test_a_clock_that_keeps_jumping_is_not_followed() -> None:
    hardware = Hardware()
    clock = hardware.clock()
    for number in range(20):
        hardware.shift = START + number * 1000.0
        hardware.seconds += 100.0
        assert clock() == START + hardware.seconds


def test_a_clock_that_was_set_back_goes_on_until_the_system_clock_has_caught_up() -> None:
    hardware = Hardware()
    clock = hardware.clock()
    hardware.shift -= 3600.0
    for _ in range(10):
        hardware.seconds += HOLD
        assert clock() == START + hardware.seconds
    hardware.shift += 3600.0
    assert clock() == START + hardware.seconds


def test_it_starts_after_the_last_event() -> None:
    clock = Hardware().clock()
    clock.start_after(START + 3600.0)
    assert clock() == START + 3600.0


@pytest.mark.parametrize(("gap", "settled"), [(3600.0, True), (YEARS, False)])
def test_after_a_long_gap_nothing_is_pruned_for_a_day(gap: float, settled: bool) -> None:
    hardware = Hardware(START + gap)
    clock = hardware.clock()
    clock.start_after(START)
    assert clock() == START + gap
    assert clock.is_settled == settled
    hardware.seconds += DAY
    assert clock.is_settled


async def test_a_clock_two_years_ahead_neither_settles_decisions_nor_prunes_events(tmp_path: Path) -> None:
    hardware = Hardware()

    async with run_engine(tmp_path, clock=hardware.clock(), keep_snapshots=1) as (engine, database):
        await engine.create("home", settings(reward_timeout=5.0, default_reward=0.0))
        await decide_and_reward(engine, 20)
        await decide(engine, {"age": 1})
        hardware.shift += YEARS
        hardware.seconds += 1.0
        await engine.tick()
        await decide_and_reward(engine, 20)
        await engine.cache.save(engine.loaded["home"])
        assert next(database.events(1, 0)).sequence == 1
        assert (await engine.read("home", lambda experiment: experiment.bandit.counts))["pending"] == 1
        hardware.shift -= YEARS
        hardware.seconds += 1.0
        await decide_and_reward(engine, 1)
        *_, last = database.events(1, 0)
        assert last.at == START + 2.0
        hardware.seconds += 5.0
        await engine.tick()
        assert (await engine.read("home", lambda experiment: experiment.bandit.counts))["timed_out"] == 1
