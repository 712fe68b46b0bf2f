"""Simulation of one policy on one stream."""

import time
from dataclasses import dataclass

import numpy as np

from glcb._arrays import Float64, Int64
from glcb._errors import InvalidSettings
from glcb.policies.base import Policy
from glcb.tasks.base import Stream


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The decisions and rewards of one policy, step by step.

    Parameters
    ----------
    arms : ndarray of int64, shape (steps,)
        Index of the chosen arm.
    rewards : ndarray of float64, shape (steps,)
        The reward of the chosen arm.
    decide_seconds : ndarray of float64, shape (steps,)
        Duration of each decision.
    learn_seconds : ndarray of float64, shape (steps,)
        Duration of each update.
    """

    arms: Int64
    rewards: Float64
    decide_seconds: Float64
    learn_seconds: Float64

    @property
    def total(self) -> float:
        """Sum of the rewards."""
        return float(self.rewards.sum())


def simulate(policy: Policy, stream: Stream) -> Trajectory:
    """Run ``policy`` on ``stream``: one decision and one update per step.

    Parameters
    ----------
    policy : Policy
        A policy with the arms and the number of features of the stream's task. It is modified.
    stream : Stream
        The contexts and rewards, from :meth:`glcb.tasks.Task.stream`.

    Returns
    -------
    Trajectory
        The decisions, rewards and durations.

    Raises
    ------
    InvalidSettings
        If ``stream`` is not a stream or has a different number of arms than the policy.

    Examples
    --------
    >>> from glcb import LinUCB, tasks
    >>> task = tasks.get("linear")
    >>> policy = LinUCB(task.arms, task.features, rewards=task.rewards)
    >>> trajectory = simulate(policy, task.stream(seed=0, steps=200))
    >>> trajectory.arms.shape
    (200,)
    """
    if not isinstance(stream, Stream):
        raise InvalidSettings(f"stream must be a Stream, such as task.stream(seed=0), got {stream!r}")
    if len(policy.arms) != stream.rewards.shape[1]:
        raise InvalidSettings(
            f"the stream has {stream.rewards.shape[1]} arms and the policy {len(policy.arms)}: create the "
            "policy with task.arms, task.features and task.rewards"
        )
    index_of = {arm: index for index, arm in enumerate(policy.arms)}
    arms = np.empty(stream.steps, np.int64)
    rewards, decide_seconds, learn_seconds = (np.empty(stream.steps) for _ in range(3))
    for step in range(stream.steps):
        context = stream.contexts[step]
        decide_start = time.perf_counter()
        arm = policy.decide(context).arm
        decide_end = time.perf_counter()
        arms[step] = index_of[arm]
        rewards[step] = stream.rewards[step, index_of[arm]]
        learn_start = time.perf_counter()
        policy.learn(context, arm, rewards[step])
        learn_seconds[step] = time.perf_counter() - learn_start
        decide_seconds[step] = decide_end - decide_start
    return Trajectory(arms, rewards, decide_seconds, learn_seconds)
