"""Concurrent traffic for one experiment, with a ledger of everything the service acknowledged."""

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
INVALID = 0.05
"""Share of the rounds that start with an invalid request."""
EXPERIMENT: dict[str, Any] = {"arms": list(ARMS), "seed": 10_000, "max_pending": 2000}


@dataclass(frozen=True)
class SentRequest:
    """A request that the ledger tracks."""

    path: str
    body: dict[str, Any]

    @property
    def content(self) -> bytes:
        """The request in bytes."""
        return post(self.path, json.dumps(self.body).encode())


@dataclass
class Ledger:
    """Everything the service acknowledged, and the requests whose result is unknown."""

    decisions: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Arm and propensity of every acknowledged decision, by id."""
    rewards: dict[str, float] = field(default_factory=dict)
    """Every acknowledged reward, by decision id."""
    keys: dict[str, str] = field(default_factory=dict)
    """Decision id by idempotency key."""
    unanswered: list[SentRequest] = field(default_factory=list)
    """Requests without a response."""
    refused: dict[int, int] = field(default_factory=dict)
    """Number of responses by any other status."""
    changes: dict[str, float] = field(default_factory=dict)
    """The holdout of every acknowledged change of settings, by its reason."""
    doubtful_changes: dict[str, float] = field(default_factory=dict)
    """The holdouts of changes without a response."""

    def record(self, request: SentRequest, status: int, content: bytes) -> str | None:
        """Record a response; return the decision id if it acknowledges a decision or a reward."""
        if status != 200:
            self.refused[status] = self.refused.get(status, 0) + 1
            # After a storage failure, the last events may or may not be on disk.
            if status == 503:
                self.unanswered.append(request)
            return None
        answer = json.loads(content)
        name = str(answer["id"])
        if "value" in request.body:
            assert answer["status"] in ("accepted", "duplicate"), answer
            self.rewards[name] = request.body["value"]
            return name
        acknowledged = (answer["arm"], answer["propensity"])
        key = request.body.get("idempotency_key")
        assert self.decisions.get(name, acknowledged) == acknowledged, "one id, two decisions"
        assert key is not None or name not in self.decisions, "one id, two requests"
        assert key is None or self.keys.get(key, name) == name, "one key, two decisions"
        self.decisions[name] = acknowledged
        if key is not None:
            self.keys[key] = name
        return name


class Traffic:
    """Concurrent clients of one experiment, until canceled or until the server is gone.

    Each waits for ``pause`` seconds after a decision and its reward.
    """

    def __init__(
        self, experiment: str, ledger: Ledger, seed: int, with_changes: bool = False, pause: float = 0.0
    ) -> None:
        self.path = f"/v1/experiments/{experiment}"
        self.ledger = ledger
        self._with_changes = with_changes
        self._pause = pause
        self.slowest = 0.0
        """Seconds of the slowest response."""
        self._rng = random.Random(seed)

    async def run(self, url: str, connections: int, seconds: float) -> None:
        """Send requests over ``connections`` connections for ``seconds``."""
        tasks = [asyncio.create_task(self._send_requests(url)) for _ in range(connections)]
        if self._with_changes:
            tasks.append(asyncio.create_task(self._change_settings(url)))
        try:
            await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async def _send_requests(self, url: str) -> None:
        try:
            wire = await connect(url)
        except OSError:
            return
        try:
            while True:
                if self._rng.random() < INVALID:
                    await self._send_invalid(wire)
                name = await self._ask(wire, self._decision())
                if name is not None and self._rng.random() < 0.9:
                    await self._ask(wire, self._reward(name))
                await asyncio.sleep(self._pause)
        except ConnectionError:
            return
        finally:
            wire.close()

    async def _change_settings(self, url: str) -> None:
        """Change the settings repeatedly."""
        ledger = self.ledger
        try:
            wire = await connect(url)
        except OSError:
            return
        try:
            while True:
                holdout, number = round(self._rng.random() / 2, 6), len(ledger.changes)
                reason = f"change {number} {len(ledger.doubtful_changes)}"
                body = {"holdout": holdout, "exploration": holdout / 2, "reason": reason}
                ledger.doubtful_changes[reason] = holdout
                status, content = await wire.ask(post(self.path, json.dumps(body).encode(), "PATCH"))
                if status != 503:
                    assert status == 200, content
                    ledger.changes[reason] = ledger.doubtful_changes.pop(reason)
                await asyncio.sleep(0.01)
        except ConnectionError:
            return
        finally:
            wire.close()

    async def _ask(self, wire: Wire, request: SentRequest) -> str | None:
        start = time.monotonic()
        try:
            status, content = await wire.ask(request.content)
        except (ConnectionError, asyncio.CancelledError):
            self.ledger.unanswered.append(request)
            raise
        self.slowest = max(self.slowest, time.monotonic() - start)
        if status == 503:
            await asyncio.sleep(0.05)
        return self.ledger.record(request, status, content)

    async def _send_invalid(self, wire: Wire) -> None:
        """Send an invalid request, which must be rejected without side effects."""
        body = self._rng.choice(
            ({"context": 5}, {"context": {}, "eligible": ["unknown"]}, {"context": {}, "x": 1})
        )
        paths = (f"{self.path}/decisions", f"{self.path}/decisions/999999999-0/reward")
        status, content = await wire.ask(post(self._rng.choice(paths), json.dumps(body).encode()))
        assert status in (404, 422, 503), (status, content)

    def _decision(self) -> SentRequest:
        body: dict[str, Any] = {"context": random_context(self._rng)}
        if self._rng.random() < 0.5:
            body["idempotency_key"] = str(uuid.UUID(int=self._rng.getrandbits(128)))
        return SentRequest(f"{self.path}/decisions", body)

    def _reward(self, name: str) -> SentRequest:
        body: dict[str, Any] = {"value": self._rng.randrange(2)}
        if self._rng.random() < 0.5:
            body["idempotency_key"] = f"order of {name}"
        return SentRequest(f"{self.path}/decisions/{name}/reward", body)


def random_context(rng: random.Random) -> dict[str, Any]:
    """Draw a context."""
    return {
        "country": rng.choice(("FR", "DE", "IT", "ES")),
        "age": rng.randint(18, 90),
        "hour": rng.randrange(24),
        "member": rng.random() < 0.3,
    }


def retry_unanswered(client: Client, ledger: Ledger) -> None:
    """Retry every unanswered request that has an idempotency key, and record the responses.

    Requests without a key are not retried, because they could take effect twice. A reward whose decision has
    been closed or is unknown by now stays unanswered.
    """
    remaining = []
    for request in ledger.unanswered:
        if "idempotency_key" not in request.body:
            remaining.append(request)
            continue
        answer = client.post(request.path, request.body)
        if answer.status in (404, 410):
            remaining.append(request)
            continue
        assert answer.status == 200, (request, answer)
        ledger.record(request, answer.status, answer.content)
    ledger.unanswered = remaining
