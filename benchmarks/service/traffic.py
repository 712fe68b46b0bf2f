"""Visitors who ask, reward, and write down what they were promised."""

import asyncio
import json
import random
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from benchmarks.service.client import Client
from benchmarks.service.wire import Wire, connect, post

ARMS = ("sports", "news", "games")
NONSENSE = 0.05
"""So many of the visitors ask for nonsense first."""
EXPERIMENT: dict[str, Any] = {"arms": list(ARMS), "seed": 10_000, "max_pending": 2000}


@dataclass(frozen=True)
class Question:
    """A request whose answer matters."""

    path: str
    body: dict[str, Any]

    @property
    def request(self) -> bytes:
        """Return its bytes."""
        return post(self.path, json.dumps(self.body).encode())


@dataclass
class Ledger:
    """What the service acknowledged, and what it may or may not have done."""

    decisions: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Arm and propensity of every decision that was answered, by id."""
    rewards: dict[str, float] = field(default_factory=dict)
    """Every reward that was answered, by the id of its decision."""
    keys: dict[str, str] = field(default_factory=dict)
    """The id that every idempotency key of a decision led to."""
    doubtful: list[Question] = field(default_factory=list)
    """Requests whose answer never came."""
    refused: dict[int, int] = field(default_factory=dict)
    """How often which other status came."""

    def take(self, question: Question, status: int, content: bytes) -> str | None:
        """Write down an answer; return the id of a decision or a reward that was acknowledged."""
        if status != 200:
            self.refused[status] = self.refused.get(status, 0) + 1
            # When the storage fails, nobody knows whether its last words were kept.
            if status == 503:
                self.doubtful.append(question)
            return None
        answer = json.loads(content)
        name = str(answer["id"])
        if "value" in question.body:
            assert answer["status"] in ("taken", "repeated"), answer
            self.rewards[name] = question.body["value"]
            return name
        promise = (answer["arm"], answer["propensity"])
        key = question.body.get("idempotency_key")
        assert self.decisions.get(name, promise) == promise, "one id, two decisions"
        assert key is not None or name not in self.decisions, "one id, two visitors"
        assert key is None or self.keys.get(key, name) == name, "one key, two decisions"
        self.decisions[name] = promise
        if key is not None:
            self.keys[key] = name
        return name


class Traffic:
    """Visitors of one experiment, until told to end or until the server is gone."""

    def __init__(self, experiment: str, ledger: Ledger, seed: int) -> None:
        self.path = f"/v1/experiments/{experiment}"
        self.ledger = ledger
        self.slowest = 0.0
        """Seconds that the slowest answer took."""
        self._rng = random.Random(seed)

    async def run(self, url: str, visitors: int, seconds: float) -> None:
        """Let so many visitors at once come for so long."""
        tasks = [asyncio.create_task(self._visit(url)) for _ in range(visitors)]
        try:
            await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async def _visit(self, url: str) -> None:
        try:
            wire = await connect(url)
        except OSError:
            return
        try:
            while True:
                if self._rng.random() < NONSENSE:
                    await self._refused(wire)
                name = await self._ask(wire, self._decision())
                if name is not None and self._rng.random() < 0.9:
                    await self._ask(wire, self._reward(name))
        except ConnectionError:
            return
        finally:
            wire.close()

    async def _ask(self, wire: Wire, question: Question) -> str | None:
        start = time.monotonic()
        try:
            status, content = await wire.ask(question.request)
        except (ConnectionError, asyncio.CancelledError):
            self.ledger.doubtful.append(question)
            raise
        self.slowest = max(self.slowest, time.monotonic() - start)
        if status == 503:
            await asyncio.sleep(0.05)
        return self.ledger.take(question, status, content)

    async def _refused(self, wire: Wire) -> None:
        """Ask for something that cannot be: it must be refused, and leave no trace."""
        body = self._rng.choice(
            ({"context": 5}, {"context": {}, "eligible": ["nobody"]}, {"context": {}, "x": 1})
        )
        paths = (f"{self.path}/decisions", f"{self.path}/decisions/999999999-0/reward")
        status, content = await wire.ask(post(self._rng.choice(paths), json.dumps(body).encode()))
        assert status in (404, 422, 503), (status, content)

    def _decision(self) -> Question:
        body: dict[str, Any] = {"context": visitor(self._rng)}
        if self._rng.random() < 0.5:
            body["idempotency_key"] = str(uuid.UUID(int=self._rng.getrandbits(128)))
        return Question(f"{self.path}/decisions", body)

    def _reward(self, name: str) -> Question:
        body: dict[str, Any] = {"value": self._rng.randrange(2)}
        if self._rng.random() < 0.5:
            body["idempotency_key"] = f"order of {name}"
        return Question(f"{self.path}/decisions/{name}/reward", body)


def visitor(rng: random.Random) -> dict[str, Any]:
    """Draw a context of a visitor."""
    return {
        "country": rng.choice(("FR", "DE", "IT", "ES")),
        "age": rng.randint(18, 90),
        "hour": rng.randrange(24),
        "member": rng.random() < 0.3,
    }


def ask_again(client: Client, ledger: Ledger) -> None:
    """Send every doubtful request that has a key once more, and write the answers down.

    Without a key it might happen twice, and a reward may come too late by now, or so late that its decision
    is forgotten: those stay in doubt.
    """
    remaining = []
    for question in ledger.doubtful:
        if "idempotency_key" not in question.body:
            remaining.append(question)
            continue
        answer = client.post(question.path, question.body)
        if answer.status in (404, 410):
            remaining.append(question)
            continue
        assert answer.status == 200, (question, answer)
        ledger.take(question, answer.status, answer.content)
    ledger.doubtful = remaining
