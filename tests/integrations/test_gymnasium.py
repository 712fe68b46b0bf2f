"""Tasks in Gymnasium: its checker, its registry, and an agent in its environments."""

import numpy as np
import pytest

from glcb import InvalidInput, InvalidSettings, NotSupported, make_policy, tasks
from glcb.bench import simulate

pytest.importorskip("gymnasium")

import gymnasium
from gymnasium.utils.env_checker import check_env

from glcb.integrations.gymnasium import PolicyAgent, TaskEnv, play


@pytest.mark.parametrize("task", ["wheel", "linear"])
def test_the_checker_of_gymnasium_accepts_a_task(task: str) -> None:
    check_env(gymnasium.make("glcb.integrations.gymnasium:glcb/Task-v0", task=task, steps=50).unwrapped)


def test_gymnasium_makes_a_task_by_name() -> None:
    env = gymnasium.make("glcb.integrations.gymnasium:glcb/Task-v0", task="wheel", steps=20)
    assert len(play(env, PolicyAgent(env, "ucb1"), seed=3)) == 20
    env.close()


def test_an_episode_is_the_stream_of_its_seed() -> None:
    env, stream = TaskEnv("linear", steps=30), tasks.get("linear").stream(7, 30)
    observation, _ = env.reset(seed=7)
    for step in range(30):
        assert observation.tolist() == stream.contexts[step].tolist()
        observation, reward, terminated, truncated, info = env.step(np.int64(step % 3))
        assert reward == stream.rewards[step, step % 3]
        assert info == {"best_reward": stream.best[step]}
        assert (terminated, truncated) == (False, step == 29)
    with pytest.raises(InvalidInput, match="call reset"):
        env.step(np.int64(0))
    first, _ = env.reset()
    second, _ = env.reset()
    assert first.tolist() != second.tolist()


@pytest.mark.parametrize("task", ["wheel", "newcomer"])
def test_an_agent_plays_like_the_policy_in_the_simulation(task: str) -> None:
    env, source = TaskEnv(task, steps=300), tasks.get(task)
    policy = make_policy("linucb", source.arms, source.features, rewards=source.rewards, seed=5)
    expected = simulate(policy, source.stream(1, 300)).rewards
    assert play(env, PolicyAgent(env, "linucb", seed=5), seed=1).tolist() == expected.tolist()


def test_an_arm_that_is_not_available_is_refused() -> None:
    env = TaskEnv("newcomer", steps=50)
    _, info = env.reset(seed=0)
    absent = np.flatnonzero(info["action_mask"] == 0)
    with pytest.raises(InvalidInput, match="not available"):
        env.step(absent[0])
    with pytest.raises(InvalidInput, match="from 0 to"):
        env.step(np.int64(1000))


def test_delayed_rewards_are_refused() -> None:
    with pytest.raises(NotSupported, match="delayed"):
        TaskEnv("delay", steps=50).reset(seed=0)


class Parity(gymnasium.Env[np.ndarray, np.int64]):
    """Pays for action 5 if the observation is positive, else for action 4."""

    observation_space = gymnasium.spaces.Box(-2.0, 2.0, (1, 1), np.float32)
    action_space = gymnasium.spaces.Discrete(2, start=4)

    def reset(
        self, *, seed: int | None = None, options: object = None
    ) -> tuple[np.ndarray, dict[str, object]]:
        super().reset(seed=seed)
        self.left = 300
        return self._draw(), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, object]]:
        reward = float(action == 4 + (self.shown.item() > 0))
        self.left -= 1
        return self._draw(), reward, self.left == 0, False, {}

    def _draw(self) -> np.ndarray:
        self.shown = np.asarray(self.np_random.uniform(-2, 2, (1, 1)), np.float32)
        return self.shown


def test_an_agent_learns_in_any_environment_with_a_bounded_box() -> None:
    env = Parity()
    rewards = play(env, PolicyAgent(env, "linucb"), seed=10_000)
    assert rewards[-100:].mean() > 0.9


@pytest.mark.parametrize(
    ("observations", "actions", "message"),
    [
        (gymnasium.spaces.Box(-np.inf, np.inf, (2,)), gymnasium.spaces.Discrete(2), "bounded box"),
        (gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2), "bounded box"),
        (gymnasium.spaces.Box(0, 1, (2,)), gymnasium.spaces.Box(0, 1, (1,)), "discrete"),
    ],
)
def test_other_spaces_are_refused(
    observations: gymnasium.Space[object], actions: gymnasium.Space[object], message: str
) -> None:
    env: gymnasium.Env[object, object] = gymnasium.Env()
    env.observation_space, env.action_space = observations, actions
    with pytest.raises(InvalidSettings, match=message):
        PolicyAgent(env)
