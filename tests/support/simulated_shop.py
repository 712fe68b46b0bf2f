"""A simulated shop: an experiment in which the best arm depends on the visitor."""

import random
from dataclasses import dataclass, field
from typing import Any

from benchmarks.service.client import Client

ARMS = ["Summer sale", "Free shipping", "New arrivals", "Gift cards"]


@dataclass
class Shop:
    """Simulated visitors of one experiment, who buy or not."""

    client: Client
    experiment: str
    rng: random.Random = field(default_factory=lambda: random.Random(10_000))

    def visitor(self) -> dict[str, Any]:
        """Draw the context of a visitor."""
        rng = self.rng
        return {
            "country": rng.choice(["FR", "DE", "IT", "ES", "UK"]),
            "age": rng.randint(18, 80) if rng.random() > 0.03 else None,
            "hour": rng.randint(0, 23),
            "member": rng.random() < 0.4,
        }

    def buys(self, visitor: dict[str, Any], arm: str) -> float:
        """Draw the reward: 1 for a purchase, else 0."""
        age = visitor["age"] or 40
        probabilities = {
            "Summer sale": 0.15 + 0.4 * (visitor["country"] in ("IT", "ES")),
            "Free shipping": 0.2 + 0.4 * (age < 35),
            "New arrivals": 0.1 + 0.5 * visitor["member"],
            "Gift cards": 0.1 + 0.4 * (age > 60),
        }
        return float(self.rng.random() < probabilities.get(arm, 0.1))

    def simulate(self, visitors: int, batch: int = 20) -> None:
        """Simulate visitors in batches; nine of ten send a reward."""
        path = f"/v1/experiments/{self.experiment}"
        for _ in range(visitors // batch):
            contexts = [self.visitor() for _ in range(batch)]
            request = {"decisions": [{"context": context} for context in contexts]}
            decisions = self.client.post(f"{path}/decisions/batch", request).data["results"]
            rewards = [
                {"id": decision["id"], "value": self.buys(context, decision["arm"])}
                for context, decision in zip(contexts, decisions, strict=True)
                if self.rng.random() < 0.9
            ]
            assert self.client.post(f"{path}/rewards", {"rewards": rewards}).status == 200
        one = self.client.post(f"{path}/decisions", {"context": self.visitor()})
        assert one.status == 200, one
