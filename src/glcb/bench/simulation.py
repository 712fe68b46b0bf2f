"""One policy plays one stream."""

import time
from dataclasses import dataclass

import numpy as np

from glcb._errors import InvalidSettings
from glcb._types import Float64, Int64
from glcb.policies.base import Policy
from glcb.tasks.base import Stream


@dataclass(frozen=True, eq=False)
class Played:
    """What came of it, step by step."""

    arms: Int64
    """Number of the arm that was played."""
    rewards: Float64
    """The reward that came."""
    decide_seconds: Float64
    """Time that the decision took."""
    learn_seconds: Float64
    """Time that learning from the reward took."""

    @property
    def total(self) -> float:
        """Sum of the rewards."""
        return float(self.rewards.sum())


def simulate(policy: Policy, stream: Stream) -> Played:
    """Let ``policy`` decide and learn once on every step of ``stream``."""
    if not isinstance(stream, Stream):
        raise InvalidSettings(f"a policy plays a stream, such as task.stream(seed=0), got {stream!r}")
    if len(policy.arms) != stream.rewards.shape[1]:
        raise InvalidSettings(
            f"the stream has {stream.rewards.shape[1]} arms, the policy {len(policy.arms)}: make it with "
            "task.arms, task.features and task.rewards"
        )
    number = {arm: index for index, arm in enumerate(policy.arms)}
    arms = np.empty(stream.steps, np.int64)
    rewards, decide_seconds, learn_seconds = (np.empty(stream.steps) for _ in range(3))
    for step in range(stream.steps):
        context = stream.contexts[step]
        start = time.perf_counter()
        arm = policy.decide(context).arm
        decided = time.perf_counter()
        arms[step] = number[arm]
        rewards[step] = stream.rewards[step, number[arm]]
        asked = time.perf_counter()
        policy.learn(context, arm, rewards[step])
        learn_seconds[step] = time.perf_counter() - asked
        decide_seconds[step] = decided - start
    return Played(arms, rewards, decide_seconds, learn_seconds)
