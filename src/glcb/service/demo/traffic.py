"""Simulated visitors: three days of history at the start, then live visitors over HTTP."""

import asyncio
import time
from random import Random

import httpx
import msgspec

from glcb._api.requests import DecisionRequest, RewardItem
from glcb._api.responses import Decision
from glcb._errors import GlcbError
from glcb.client import AsyncClient, AsyncExperiment
from glcb.service.config import ServiceSettings
from glcb.service.demo.worlds import World
from glcb.service.engine.engine import Engine
from glcb.service.storage.database import Database

DAYS = 3.0
"""Length of the simulated history."""
BURST = 20
"""Visitors per burst."""
BURSTS = 100
VISITORS_PER_SECOND = 3.0
"""Live visitors per second and world."""
_DECISION = msgspec.json.Decoder(Decision)
_RETRY_SECONDS = 2.0

# ---- history ------------------------------------------------------------------------------------


class SimulatedClock:
    """A clock that advances by one second per reading."""

    is_settled = True

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the time."""
        self.now += 1.0
        return self.now


async def simulate_history(
    database: Database, settings: ServiceSettings, worlds: list[World], bursts: int = BURSTS
) -> None:
    """Simulate past visitors in every world that has no decisions yet.

    Parameters
    ----------
    database, settings
        Where the experiments are created.
    worlds
        The worlds to simulate.
    bursts
        Number of bursts of visitors, spread evenly over ``DAYS`` days.
    """
    length = DAYS * 86_400
    start = time.time() - length
    clock = SimulatedClock(start)
    engine = Engine(database, settings, clock)
    await engine.start()
    try:
        await engine.opened()
        infos = [(await engine.create(world.name, world.settings))[0] for world in worlds]
        fresh = [world for world, info in zip(worlds, infos, strict=True) if not info.counts.decisions]
        for burst in range(bursts):
            clock.now = start + length * burst / bursts
            for world in fresh:
                await _simulate_burst(engine, world, burst)
    finally:
        await engine.stop()


async def _simulate_burst(engine: Engine, world: World, number: int) -> None:
    """Simulate some visitors and their rewards."""
    rng = Random(f"{world.name} {number}")
    contexts = [world.visitor(rng) for _ in range(BURST)]
    requests = [DecisionRequest(context=context) for context in contexts]
    answers = await engine.apply_many(world.name, "decide", requests)
    rewards = []
    for place, (context, answer) in enumerate(zip(contexts, answers, strict=True)):
        assert isinstance(answer, bytes), answer
        decision = _DECISION.decode(answer)
        value = world.reward(rng, context, decision.arm, world.era_of(number * BURST + place))
        if rng.random() >= world.lost:
            rewards.append(RewardItem(id=decision.id, value=value))
    await engine.apply_many(world.name, "reward", rewards)


# ---- live visitors ------------------------------------------------------------------------------


async def simulate_visitors(url: str, worlds: list[World]) -> None:
    """Simulate live visitors of all worlds over HTTP until canceled."""
    # An explicit transport ignores proxy settings, which must not apply to a local service.
    async with (
        AsyncClient(url, transport=httpx.AsyncHTTPTransport()) as client,
        asyncio.TaskGroup() as tasks,
    ):
        for world in worlds:
            tasks.create_task(_simulate_world(client.experiment(world.name), world))


async def _simulate_world(experiment: AsyncExperiment, world: World) -> None:
    rng = Random()
    number = 0
    async with asyncio.TaskGroup() as visits:
        while True:
            await asyncio.sleep(rng.expovariate(VISITORS_PER_SECOND))
            try:
                if not number:
                    number = (await experiment.info()).counts.decisions
                number += 1
                visits.create_task(_visit(experiment, world, world.era_of(number), rng))
            except GlcbError:  # the experiment was paused or deleted: it may come back
                await asyncio.sleep(_RETRY_SECONDS)


async def _visit(experiment: AsyncExperiment, world: World, era: int, rng: Random) -> None:
    context = world.visitor(rng)
    try:
        decision = await experiment.decide(context)
        value = world.reward(rng, context, decision.arm, era)
        if rng.random() >= world.lost:
            await asyncio.sleep(rng.expovariate(1 / world.delay))
            await experiment.reward(decision.id, value)
    except GlcbError:  # paused, deleted or timed out
        return
