"""Tasks as Gymnasium environments, and policies as agents.

A task is an environment in which actions do not change the observations that follow. Importing this module
registers it, with the name of the task as an argument::

    gymnasium.make("glcb.integrations.gymnasium:glcb/Task-v0", task="wheel")
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glcb import _validation, make_policy, tasks
from glcb._arrays import Float32, Float64
from glcb._errors import InvalidInput, InvalidSettings, MissingExtra, NotSupported, install_command
from glcb._types import Rewards
from glcb.tasks import Stream, Task
from glcb.tasks.base import default_steps

try:
    import gymnasium
    from gymnasium import spaces
except ModuleNotFoundError as error:
    raise MissingExtra(f"the environment needs {error.name}: {install_command('gymnasium')}") from error

__all__ = ["PolicyAgent", "TaskEnv", "play"]

Mask = NDArray[np.int8]
"""1 for each available action, as in Gymnasium."""


class TaskEnv(gymnasium.Env[Float32, np.int64]):
    """A task as an environment: the context is the observation, the arm is the action.

    An episode is one run of the task, truncated after `steps` steps. ``info`` holds the largest reward of the
    last step (``best_reward``) and, if not all arms are available, an ``action_mask``.

    Parameters
    ----------
    task : str or Task
        The name of a task, or a task.
    steps : int, optional
        Number of steps of an episode. Default: the length of the task, or 5,000.

    Raises
    ------
    InvalidSettings
        If there is no such task, or `steps` is invalid.

    Examples
    --------
    >>> env = TaskEnv("wheel", steps=100)
    >>> observation, info = env.reset(seed=0)
    >>> observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
    >>> terminated, truncated
    (False, False)
    """

    def __init__(self, task: str | Task, steps: int | None = None) -> None:
        self.task = tasks.get(task) if isinstance(task, str) else task
        chosen = default_steps(self.task) if steps is None else steps
        self.steps = _validation.integer("steps", chosen, 1, 2**31 - 1)
        self.observation_space = spaces.Box(0.0, 1.0, (self.task.features,), np.float32)
        self.action_space = spaces.Discrete(len(self.task.arms))
        self._stream: Stream | None = None
        self._step = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float32, dict[str, Any]]:
        """Start an episode.

        Parameters
        ----------
        seed : int, optional
            The seed of the stream: the same data as ``task.stream(seed)``. Default: a new one each time.
        options : dict, optional
            The seed of the stream, as in ``task.stream(seed)``. Default: a new seed each time.

        Returns
        -------
        tuple
            The first context, and an ``info``.

        Raises
        ------
        NotSupported
            If the rewards of the task are delayed.
        """
        super().reset(seed=seed)
        chosen = int(self.np_random.integers(2**31)) if seed is None else seed
        stream = self.task.stream(chosen, self.steps)
        if stream.delays is not None:
            raise NotSupported(
                f"the rewards of {self.task.name} are delayed, but every step of an environment has one"
            )
        self._stream, self._step = stream, 0
        return self._observe(), self._mask()

    def step(self, action: np.int64) -> tuple[Float32, float, bool, bool, dict[str, Any]]:
        """Choose an arm.

        Parameters
        ----------
        action : int
            The index of the arm.

        Returns
        -------
        tuple
            The next context, the reward, False, whether the episode is over, and an ``info``. After the last
            step, the context is repeated.

        Raises
        ------
        InvalidInput
            If there is no such arm, it is not available, or the episode is over.
        """
        stream = self._stream
        if stream is None or self._step == stream.steps:
            raise InvalidInput("the episode is over: call reset")
        if not self.action_space.contains(action):
            highest = len(self.task.arms) - 1
            raise InvalidInput(f"an action must be an integer from 0 to {highest}, got {action!r}")
        if stream.available is not None and not stream.available[self._step, action]:
            raise InvalidInput(f"action {action} is not available in this step: see info['action_mask']")
        reward, best = float(stream.rewards[self._step, action]), float(stream.best[self._step])
        self._step += 1
        return (
            self._observe(),
            reward,
            False,
            self._step == stream.steps,
            {"best_reward": best, **self._mask()},
        )

    def _observe(self) -> Float32:
        assert self._stream is not None
        context: Float32 = self._stream.contexts[min(self._step, self._stream.steps - 1)].copy()
        return context

    def _mask(self) -> dict[str, Any]:
        assert self._stream is not None
        available = self._stream.available
        if available is None:
            return {}
        return {"action_mask": available[min(self._step, self._stream.steps - 1)].astype(np.int8)}


class PolicyAgent:
    """A policy that acts in an environment and learns from its rewards.

    It maximizes the reward of each step and ignores later effects of an action, so it fits environments in
    which actions have no lasting effect.

    Parameters
    ----------
    env : gymnasium.Env
        An environment with discrete actions and observations in a bounded box.
    policy : str, default "glcb"
        The name of the policy.
    rewards : "binary" or (float, float), optional
        The range of the rewards. Default: the range of the task if `env` is a :class:`TaskEnv`, else
        "binary".
    policy_settings : dict, optional
        Settings of the policy, by name.
    seed : int, default 0
        Seed of the policy.

    Raises
    ------
    InvalidSettings
        If the spaces have other types, or an argument is invalid.

    Examples
    --------
    >>> env = TaskEnv("wheel", steps=500)
    >>> rewards = play(env, PolicyAgent(env, "linucb"), seed=0)
    >>> rewards.shape
    (500,)
    """

    def __init__(
        self,
        env: "gymnasium.Env[Any, Any]",
        policy: str = "glcb",
        *,
        rewards: Rewards | None = None,
        policy_settings: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        actions, box, task = env.action_space, env.observation_space, getattr(env.unwrapped, "task", None)
        if not isinstance(actions, spaces.Discrete):
            raise InvalidSettings(f"the actions must be discrete, got {actions}")
        if not isinstance(box, spaces.Box) or not box.is_bounded():
            raise InvalidSettings(f"the observations must be a bounded box, got {box}")
        self._start = int(actions.start)
        self._low = box.low.astype(np.float64).ravel()
        self._range = np.maximum(box.high.astype(np.float64).ravel() - self._low, 1e-300)
        known: Rewards = "binary" if task is None else task.rewards
        self.policy = make_policy(
            policy,
            int(actions.n),
            self._low.size,
            rewards=known if rewards is None else rewards,
            seed=seed,
            **(policy_settings or {}),
        )

    def act(self, observation: Any, mask: Mask | None = None) -> int:
        """Return the action for an observation.

        Parameters
        ----------
        observation : numpy.ndarray
            The observation.
        mask : numpy.ndarray of int8, optional
            1 for each available action. Default: all.

        Returns
        -------
        int
            The action.
        """
        eligible = None if mask is None else np.flatnonzero(mask).tolist()
        return self._start + int(self.policy.decide(self._scale(observation), eligible=eligible).arm)

    def learn(self, observation: Any, action: int, reward: float) -> None:
        """Learn the reward of an action.

        Parameters
        ----------
        observation : numpy.ndarray
            The observation before the action.
        action : int
            The action.
        reward : float
            Its reward.
        """
        self.policy.learn(self._scale(observation), int(action) - self._start, reward)

    def _scale(self, observation: Any) -> Float64:
        flat = np.asarray(observation, np.float64).ravel()
        scaled: Float64 = np.clip((flat - self._low) / self._range, 0.0, 1.0)
        return scaled


def play(env: "gymnasium.Env[Any, Any]", agent: PolicyAgent, *, seed: int | None = None) -> Float64:
    """Play one episode; the agent learns from each reward.

    Parameters
    ----------
    env : gymnasium.Env
        The environment.
    agent : PolicyAgent
        The agent.
    seed : int, optional
        The seed of the episode.

    Returns
    -------
    numpy.ndarray
        The reward of each step.
    """
    observation, info = env.reset(seed=seed)
    rewards, over = [], False
    while not over:
        action = agent.act(observation, info.get("action_mask"))
        after, reward, terminated, truncated, info = env.step(action)
        agent.learn(observation, action, float(reward))
        rewards.append(float(reward))
        observation, over = after, terminated or truncated
    return np.array(rewards)


gymnasium.register("glcb/Task-v0", entry_point="glcb.integrations.gymnasium:TaskEnv")
