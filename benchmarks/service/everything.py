"""Every kind of event of the service, in a small number of rounds: for fixtures and for tests of recovery."""

import contextlib
import random
import string
from collections.abc import Iterator
from typing import Any
from unittest import mock

import msgspec

from glcb._api.guardrails import ArmPause, Guardrail, Metric
from glcb._api.requests import (
    Activation,
    Catalog,
    CatalogChanges,
    DecisionRequest,
    ExperimentChanges,
    ExperimentSettings,
    NewArm,
    RankingRequest,
    RewardItem,
)
from glcb._errors import GlcbError
from glcb.service.core import models
from glcb.service.core.guard import RecordedReward
from glcb.service.engine.engine import Engine

SINGLE, STEERED, FEATURES, DELETED = "single", "steered", "features", "deleted"
"""The experiments. The last one is deleted again."""
MIN_ROUNDS = 40
"""With fewer rounds, some kinds of events are missing."""
AUTHOR = "team"


class SteppedClock:
    """A clock that only moves on request."""

    is_settled = True

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the time."""
        return self.now


async def exercise(engine: Engine, clock: SteppedClock, rounds: int = MIN_ROUNDS, seed: int = 0) -> None:
    """Send every kind of request to an engine. All events depend only on the arguments.

    Parameters
    ----------
    engine
        The engine, with this clock and without experiments.
    clock
        The clock, which this function moves.
    rounds
        The number of rounds, at least ``MIN_ROUNDS``.
    seed
        The seed of all requests.
    """
    if rounds < MIN_ROUNDS:
        raise ValueError(f"rounds must be at least {MIN_ROUNDS}, got {rounds}")
    with _seeded(seed):
        await Exercise(engine, clock, random.Random(seed)).run(rounds)


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Replace the random salts and prefixes of ids."""
    draw = random.Random(f"names {seed}")

    def token(size: int) -> str:
        return "".join(draw.choices(string.hexdigits[:16], k=2 * size))

    with mock.patch("secrets.token_hex", token):
        yield


class Exercise:
    """The requests of one exercise."""

    def __init__(self, engine: Engine, clock: SteppedClock, draw: random.Random) -> None:
        self._engine, self._clock, self._draw = engine, clock, draw
        self._ids: list[str] = []
        """Decisions of the first experiment, which are rewarded at any time."""
        self.rejected = 0

    async def run(self, rounds: int) -> None:
        """Create the experiments and send all requests."""
        for name, settings in _settings().items():
            await self._engine.create(name, settings, AUTHOR)
        await self._decide(DELETED)
        await self._engine.delete(DELETED, AUTHOR)
        for number in range(rounds):
            self._clock.now += self._draw.choice((0.0, 0.25, 1.0, 7.0, 40.0))
            if number % 4 == 3:
                await self._engine.tick()  # otherwise, the next decision settles due decisions
            await self._single(number)
            await self._steered(number)
            await self._with_features(number)
            await self._engine.tick()

    async def _apply(self, name: str, kind: str, request: Any, author: str | None = None) -> Any:
        """Apply a request; return its decoded answer, or None if it is rejected."""
        try:
            answer = await self._engine.apply(name, kind, request, author)
        except GlcbError:
            self.rejected += 1
            return None
        return msgspec.json.decode(answer) if answer else None

    async def _decide(self, name: str, **more: Any) -> Any:
        return await self._apply(name, "decide", DecisionRequest(context=self._context(), **more))

    async def _reward(self, name: str, decision: str, value: float, **more: Any) -> None:
        await self._apply(name, "reward", RewardItem(id=decision, value=value, **more))

    def _context(self) -> dict[str, Any]:
        draw = self._draw
        context: dict[str, Any] = {
            "age": draw.randrange(18, 90),
            "spent": draw.randrange(10**6) / 1000,
            "country": f"c{min(draw.randrange(30), draw.randrange(30))}",
            "member": draw.random() < 0.5,
            "device": {"kind": draw.choice(("phone", "desktop"))},
            "embedding": [draw.random() - 0.4 for _ in range(140)],
            "tags": draw.sample(("new", "sale", "gift"), draw.randrange(3)),
        }
        if draw.random() < 0.2:
            context[f"late {draw.randrange(4)}"] = draw.choice((1.5, "x", True))
        if draw.random() < 0.2:
            context["spent"] = None
        return context

    # ---- decisions, batches, deferred decisions, timeouts ---------------------------------------

    async def _single(self, number: int) -> None:
        """Decide alone, in batches and later; rewards are on time, late, repeated, or missing."""
        draw = self._draw
        for place in range(2):
            unit = f"visitor {draw.randrange(6)}" if place else None
            key = f"request {number // 2}" if number % 5 < 2 else None
            decision = await self._decide(SINGLE, unit=unit, idempotency_key=key)
            if decision is not None:
                self._ids.append(decision["id"])
        batch = [DecisionRequest(context=self._context(), id=f"own-{number}-{i}") for i in range(3)]
        await self._engine.apply_many(SINGLE, "decide", batch)
        self._ids += [f"own-{number}-{i}" for i in range(3)]
        deferred = await self._decide(SINGLE, deferred=True)
        if deferred is not None and number % 2:
            await self._apply(SINGLE, "activate", Activation(id=deferred["id"]))
            self._ids.append(deferred["id"])
        for place in range(3):
            decision = draw.choice(self._ids[-30:])  # the oldest ones have timed out
            value = float(draw.random() < 0.4)
            key = f"reward {number // 3}" if place == 2 else None
            await self._reward(SINGLE, decision, value, idempotency_key=key)
        rewards = [RewardItem(id=draw.choice(self._ids), value=1.0) for _ in range(2)]
        await self._engine.apply_many(SINGLE, "reward", rewards)
        await self._apply(SINGLE, "reward", RecordedReward(id=self._ids[-1], value=1.0, public=True))
        if number % 10 == 5:
            arm = f"arm {number}"
            await self._apply(SINGLE, "add_arm", NewArm(name=arm, like="a"), AUTHOR)
            await self._apply(SINGLE, "remove_arm", NewArm(name=f"arm {number - 10}"), AUTHOR)
        if number % 10 == 7:
            schema: dict[str, Any] = {"age": {"kind": "number", "range": [0, 120]}, "country": ["c1", "c2"]}
            if number % 20 == 7:
                schema = {"age": "category"}
            await self._change(SINGLE, schema=schema, exploration=0.05 + 0.01 * (number % 7))
        if number % 40 == 19:  # a model is large
            model = await self._engine.read(SINGLE, lambda one: models.model_file(one.bandit._snapshot()))
            await self._engine.upload(SINGLE, model, AUTHOR)

    # ---- control, holdout, ramp, shadow mode, guardrails ----------------------------------------

    async def _steered(self, number: int) -> None:
        """Ramp up the traffic, after some rounds in shadow mode. One arm is so bad that it is paused."""
        step = {0: 0.0, 6: 0.25, 12: 0.5, 18: 1.0}.get(number)
        if step is not None:
            await self._change(STEERED, traffic=step, shadow=number == 0, reason="ramp")
        if number == 20:
            await self._change(STEERED, shares={"b": (0.05, 0.7)}, half_life=200, segments=["country"])
        if number % 9 == 8:
            paused = ArmPause(name="d", paused=number % 2 == 0, reason="a test")
            await self._apply(STEERED, "change_arm", paused, AUTHOR)
        for place in range(12):
            unit = f"user {self._draw.randrange(40)}" if place % 3 == 0 else None
            control = self._draw.choice("ab") if place % 4 == 0 else None
            decision = await self._decide(STEERED, unit=unit, control=control)
            if decision is None:
                continue
            value = 0.0 if decision["arm"] == "c" else 10.0
            metrics = {"revenue": float(self._draw.randrange(5))} if place % 2 else None
            await self._reward(STEERED, decision["id"], value / 2, metrics=metrics)
            await self._reward(STEERED, decision["id"], value / 2)
        if number % 15 == 14:
            await self._change(STEERED, state="paused")
            await self._decide(STEERED)
            await self._change(STEERED, state="running")

    async def _change(self, name: str, **changes: Any) -> None:
        await self._apply(name, "change", ExperimentChanges(**changes), AUTHOR)

    # ---- arms with features, rankings -----------------------------------------------------------

    def _features(self) -> dict[str, Any] | None:
        draw = self._draw
        return {
            "price": draw.randrange(10**5) / 1000,
            "genre": draw.choice("xyz"),
            "topic": [draw.random() for _ in range(4)],
        }

    async def _with_features(self, number: int) -> None:
        """Decide and rank among the catalog, and among request candidates."""
        draw = self._draw
        own = {f"item {draw.randrange(50)}": self._features() for _ in range(5)}
        decision = await self._decide(FEATURES, arms=own if number % 2 else None)
        if decision is not None:
            await self._reward(FEATURES, decision["id"], float(draw.random() < 0.5))
        names = ["top", "middle", "bottom"] if number % 3 == 0 else None
        request = RankingRequest(
            context=self._context(),
            k=3,
            arms=own if number % 4 == 1 else None,
            slot_names=names,
            deferred=number % 4 == 2,
            unit=f"user {draw.randrange(9)}" if number % 5 == 0 else None,
        )
        ranking = await self._apply(FEATURES, "rank", request)
        if ranking is not None:
            if request.deferred:
                await self._apply(FEATURES, "activate", Activation(id=ranking["id"]))
            slot = 1 if names is None else "middle"
            await self._reward(FEATURES, ranking["id"], 1.0, slot=slot, examined=draw.choice((None, 2, 3)))
        if number % 8 == 3:
            changes = CatalogChanges(arms={f"new {number}": self._features()}, remove=[f"new {number - 8}"])
            await self._apply(FEATURES, "change_arms", changes, AUTHOR)
            changes = CatalogChanges(arms={f"new {number}": self._features()})
            await self._apply(FEATURES, "change_arms", changes, AUTHOR)
        if number % 16 == 9:
            arms = {name: self._features() for name in ("m1", "m2", "m3", f"m{number}")}
            await self._apply(FEATURES, "set_arms", Catalog(arms=arms), AUTHOR)


def _settings() -> dict[str, ExperimentSettings]:
    """Return the settings of the experiments, by name."""
    timeouts: dict[str, Any] = {"reward_timeout": 60.0, "default_reward": 0.0}
    catalog: dict[str, dict[str, Any] | None] = {
        f"m{i}": {"price": 2.5 * i, "genre": "xyz"[i % 3], "topic": [0.1 * i] * 4} for i in range(1, 5)
    }
    guardrail = Guardrail(metric="reward", max_fall=0.0, against="random", pauses="arm")
    steered: dict[str, Any] = {
        "rewards": (0.0, 10.0),
        "reward_aggregation": "sum",
        "reward_timeout": 90.0,
        "holdout": 0.3,
        "exploration": 0.5,
        "control": "a",
        "baseline": "random",
        "metrics": {"revenue": Metric(range=(0.0, 5.0), default=0.0)},
        "guardrails": [guardrail],
    }
    return {
        SINGLE: ExperimentSettings(arms=list("abc"), policy="glcb", holdout=0.1, max_pending=40, **timeouts),
        STEERED: ExperimentSettings(arms=list("abcd"), policy="linucb", **steered),
        FEATURES: ExperimentSettings(arms=catalog, policy="linucb", slots=3, max_pending=50, **timeouts),
        DELETED: ExperimentSettings(arms=["a", "b"], policy="ucb1"),
    }
