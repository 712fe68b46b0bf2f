"""A made-up shop whose visitors like different things: an experiment on which something is seen."""

import random
from dataclasses import dataclass, field
from typing import Any

from benchmarks.service.client import Client

ARMS = ["Summer sale", "Free shipping", "New arrivals", "Gift cards"]


@dataclass
class Shop:
    """Visitors come to one experiment, and buy or not."""

    client: Client
    experiment: str
    rng: random.Random = field(default_factory=lambda: random.Random(10_000))

    def visitor(self) -> dict[str, Any]:
        """Return somebody."""
        rng = self.rng
        return {
            "country": rng.choice(["FR", "DE", "IT", "ES", "UK"]),
            "age": rng.randint(18, 80) if rng.random() > 0.03 else None,
            "hour": rng.randint(0, 23),
            "member": rng.random() < 0.4,
        }

    def buys(self, visitor: dict[str, Any], arm: str) -> float:
        """Return 1 if they buy, else 0."""
        age = visitor["age"] or 40
        chances = {
            "Summer sale": 0.15 + 0.4 * (visitor["country"] in ("IT", "ES")),
            "Free shipping": 0.2 + 0.4 * (age < 35),
            "New arrivals": 0.1 + 0.5 * visitor["member"],
            "Gift cards": 0.1 + 0.4 * (age > 60),
        }
        return float(self.rng.random() < chances.get(arm, 0.1))

    def visited(self, times: int, at_once: int = 20) -> None:
        """Let visitors come, and nine of ten tell what they did."""
        path = f"/v1/experiments/{self.experiment}"
        for _ in range(times // at_once):
            visitors = [self.visitor() for _ in range(at_once)]
            asked = {"decisions": [{"context": visitor} for visitor in visitors]}
            found = self.client.post(f"{path}/decisions/batch", asked).data["results"]
            rewards = [
                {"id": decision["id"], "value": self.buys(visitor, decision["arm"])}
                for visitor, decision in zip(visitors, found, strict=True)
                if self.rng.random() < 0.9
            ]
            assert self.client.post(f"{path}/rewards", {"rewards": rewards}).status == 200
        one = self.client.post(f"{path}/decisions", {"context": self.visitor()})
        assert one.status == 200, one
