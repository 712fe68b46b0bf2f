"""Visitors who come while one watches. They ask over HTTP, like everybody else."""

import asyncio
from random import Random

import httpx

from glcb._errors import GlcbError
from glcb.client import AsyncClient, AsyncExperiment
from glcb.service.demo.world import World

PER_SECOND = 3.0
"""Visitors of each world."""
_TROUBLE_SECONDS = 2.0


async def come(url: str, worlds: list[World]) -> None:
    """Let visitors come to all worlds until somebody cancels this."""
    # A transport of its own: no proxy has any business between here and here.
    async with (
        AsyncClient(url, transport=httpx.AsyncHTTPTransport()) as client,
        asyncio.TaskGroup() as all_worlds,
    ):
        for world in worlds:
            all_worlds.create_task(_come_to(client.experiment(world.name), world))


async def _come_to(experiment: AsyncExperiment, world: World) -> None:
    rng = Random()
    number = 0
    async with asyncio.TaskGroup() as visits:
        while True:
            await asyncio.sleep(rng.expovariate(PER_SECOND))
            try:
                if not number:
                    number = (await experiment.counts())["decisions"]
                number += 1
                visits.create_task(_visit(experiment, world, world.era_of(number), rng))
            except GlcbError:  # somebody has paused or deleted the experiment: perhaps it comes back
                await asyncio.sleep(_TROUBLE_SECONDS)


async def _visit(experiment: AsyncExperiment, world: World, era: int, rng: Random) -> None:
    context = world.visitor(rng)
    try:
        decision = await experiment.decide(context)
        value = world.outcome(rng, context, decision.arm, era)
        if rng.random() >= world.lost:
            await asyncio.sleep(rng.expovariate(1 / world.delay))
            await experiment.reward(decision.id, value)
    except GlcbError:  # paused, deleted, or too late: visitors come and go
        return
