"""Simulation of one policy on one stream."""

import time
from dataclasses import dataclass

import numpy as np

from glcb._arrays import Bool, Float64, Int64
from glcb._errors import InvalidSettings
from glcb._types import Arm
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
        Duration of each update. With delayed rewards, the duration of all updates after the decision.
    cpu_seconds : ndarray of float64, shape (steps,)
        CPU time of each step in all threads. Other processes do not affect it.
    """

    arms: Int64
    rewards: Float64
    decide_seconds: Float64
    learn_seconds: Float64
    cpu_seconds: Float64

    @property
    def total(self) -> float:
        """Sum of the rewards."""
        return float(self.rewards.sum())


def simulate(policy: Policy, stream: Stream) -> Trajectory:
    """Run ``policy`` on ``stream``: one decision and one update per step.

    A policy chooses among the available arms. A delayed reward is learned when it arrives; a reward that is
    lost, or would arrive after the last step, is never learned. Every reward counts toward the total.

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
    rewards, decide_seconds, learn_seconds, cpu_seconds = (np.empty(stream.steps) for _ in range(4))
    reported = stream.rewards if stream.reported is None else stream.reported
    arrivals = None if stream.delays is None else _arrivals(stream.delays)
    for step in range(stream.steps):
        context = stream.contexts[step]
        eligible = None if stream.available is None else _eligible(policy.arms, stream.available[step])
        cpu_start = time.process_time()
        decide_start = time.perf_counter()
        arm = policy.decide(context, eligible=eligible).arm
        decide_end = time.perf_counter()
        arms[step] = index_of[arm]
        rewards[step] = stream.rewards[step, index_of[arm]]
        learn_start = time.perf_counter()
        if arrivals is None:
            policy.learn(context, arm, reported[step, arms[step]])
        else:
            policy.count_decision(context, arm)
            for earlier in arrivals.get(step, ()):
                chosen, reward = policy.arms[arms[earlier]], reported[earlier, arms[earlier]]
                policy.learn(stream.contexts[earlier], chosen, reward, counted=True)
        learn_seconds[step] = time.perf_counter() - learn_start
        decide_seconds[step] = decide_end - decide_start
        cpu_seconds[step] = time.process_time() - cpu_start
    return Trajectory(arms, rewards, decide_seconds, learn_seconds, cpu_seconds)


def _eligible(arms: tuple[Arm, ...], available: Bool) -> list[Arm] | None:
    """Return the available arms, or None if all are available."""
    return None if available.all() else [arms[index] for index in np.flatnonzero(available)]


def _arrivals(delays: Int64) -> dict[int, list[int]]:
    """Return, by step, the earlier steps whose rewards arrive then, in the order of their decisions.

    >>> _arrivals(np.array([2, 1, -1, 0, 7]))
    {2: [0, 1], 3: [3], 11: [4]}
    """
    arrivals: dict[int, list[int]] = {}
    for step, delay in enumerate(delays.tolist()):
        if delay >= 0:
            arrivals.setdefault(step + delay, []).append(step)
    return arrivals
