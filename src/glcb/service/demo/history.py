"""The last three days, made up within seconds: now and then a burst of visitors, one a second."""

import time
from random import Random

import msgspec

from glcb._api.requests import DecisionRequest, RewardOf
from glcb._api.responses import Decision
from glcb.service.config import ServiceSettings
from glcb.service.core.engine import Engine
from glcb.service.demo.world import World
from glcb.service.storage.storage import Storage

DAYS = 3.0
BURST = 20
BURSTS = 100


class PastClock:
    """Tells a time of the past, a second later each time."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the time."""
        self.now += 1.0
        return self.now


async def make_up(
    storage: Storage, settings: ServiceSettings, worlds: list[World], bursts: int = BURSTS
) -> None:
    """Give every world that has none yet a past."""
    length = DAYS * 86_400
    begin = time.time() - length
    clock = PastClock(begin)
    engine = Engine(storage, settings, clock)
    await engine.start()
    try:
        views = [(await engine.create(world.name, world.settings))[0] for world in worlds]
        fresh = [world for world, view in zip(worlds, views, strict=True) if not view.counts.decisions]
        for burst in range(bursts):
            clock.now = begin + length * burst / bursts
            for world in fresh:
                await _burst(engine, world, burst)
    finally:
        await engine.stop()


async def _burst(engine: Engine, world: World, number: int) -> None:
    """Let some visitors come, and hear soon after what came of them."""
    rng = Random(f"{world.name} {number}")
    contexts = [world.visitor(rng) for _ in range(BURST)]
    asked = [DecisionRequest(context=context) for context in contexts]
    answers = await engine.happen(world.name, "decide", asked)
    rewards = []
    for place, (context, answer) in enumerate(zip(contexts, answers, strict=True)):
        assert isinstance(answer, bytes), answer
        decision = msgspec.json.decode(answer, type=Decision)
        value = world.outcome(rng, context, decision.arm, world.era_of(number * BURST + place))
        if rng.random() >= world.lost:
            rewards.append(RewardOf(id=decision.id, value=value))
    await engine.happen(world.name, "reward", rewards)
