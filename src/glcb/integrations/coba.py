"""Policies as learners in experiments of coba."""

from collections.abc import Mapping, Sequence
from typing import Any

from glcb import Bandit
from glcb._errors import MissingExtra, UnknownArm, install_command
from glcb._types import Arm, ExplorationMode, Rewards
from glcb.bandit import BanditConfig
from glcb.bandit.offline import OfflineBandit

try:
    from coba.primitives import Learner
    from coba.random import CobaRandom
except ModuleNotFoundError as error:
    raise MissingExtra(f"the learner needs {error.name}: {install_command('coba')}") from error

__all__ = ["BanditLearner"]


class BanditLearner(Learner):
    """A bandit as a learner of coba.

    The actions of the first interaction are the arms. Later interactions can offer only these actions. The
    feature of an action is its name; nothing is shared between similar actions.

    Parameters
    ----------
    policy : str, default "glcb"
        Name of the policy that estimates the value of each arm.
    policy_settings : dict, default None
        Settings of the policy, by name.
    rewards : "binary" or (float, float), default "binary"
        The range of rewards: "binary" for 0 or 1, or (low, high).
    exploration : float, default 0.05
        Probability of choosing an arm other than the one with the best score.
    exploration_mode : "gap" or "uniform", default "gap"
        How exploration is divided.
    half_life : int, default None
        Number of decisions after which evidence counts half as much. None disables forgetting.
    seed : int, default 0
        Seed of all random numbers.

    Raises
    ------
    InvalidSettings
        If an argument is invalid.

    Examples
    --------
    >>> import coba
    >>> coba.CobaContext.logger = coba.NullLogger()
    >>> environments = coba.Environments.from_linear_synthetic(200, n_actions=3, n_action_features=0)
    >>> learners = [BanditLearner("linucb", rewards=(-1, 2)), coba.RandomLearner()]
    >>> result = coba.Experiment(environments, learners).run(quiet=True)
    >>> len(result.learners), len(result.interactions)
    (2, 400)
    """

    def __init__(
        self,
        policy: str = BanditConfig.policy,
        *,
        policy_settings: Mapping[str, Any] | None = BanditConfig.policy_settings,
        rewards: Rewards = BanditConfig.rewards,
        exploration: float = BanditConfig.exploration,
        exploration_mode: ExplorationMode = BanditConfig.exploration_mode,
        half_life: int | None = BanditConfig.half_life,
        seed: int = BanditConfig.seed,
    ) -> None:
        self._settings = {
            "policy": policy,
            "policy_settings": policy_settings,
            "rewards": rewards,
            "exploration": exploration,
            "exploration_mode": exploration_mode,
            "half_life": half_life,
            "seed": seed,
        }
        BanditConfig(arms=1, **self._settings)  # type: ignore[arg-type]  # reports invalid settings now
        self._rng = CobaRandom(seed)
        self._bandit: OfflineBandit | None = None

    @property
    def params(self) -> dict[str, Any]:
        """The settings, as columns of coba's table of learners."""
        return {"family": "glcb", **self._settings}

    def predict(self, context: Any, actions: Sequence[Any]) -> tuple[Any, float]:
        """Choose an action.

        Parameters
        ----------
        context : None, value, sequence or dict
            The features.
        actions : sequence
            The actions to choose from.

        Returns
        -------
        tuple
            The action and its probability.
        """
        action, probability = self._rng.choicew(actions, self._probabilities(context, actions))
        return action, probability

    def score(self, context: Any, actions: Sequence[Any], action: Any) -> float:
        """Return the probability of an action.

        Parameters
        ----------
        context : None, value, sequence or dict
            The features.
        actions : sequence
            The actions to choose from.
        action : Any
            An action that is offered.

        Returns
        -------
        float
            The probability with which :meth:`predict` chooses it.
        """
        return self._probabilities(context, actions)[list(actions).index(action)]

    def learn(self, context: Any, action: Any, reward: float, probability: float | None) -> None:
        """Learn the reward of an action.

        Parameters
        ----------
        context : None, value, sequence or dict
            The features.
        action : Any
            The action, chosen by this learner or another learner.
        reward : float
            Its reward.
        probability : float
            Ignored: rewards are learned without weights.

        Raises
        ------
        UnknownArm
            If nothing has been predicted yet, or the action is new.
        InvalidReward
            If the reward is outside of `rewards`.
        """
        if self._bandit is None:
            raise UnknownArm("the actions are not known before the first prediction: predict first")
        self._bandit.learn(_features(context), _name(action), reward)

    def _probabilities(self, context: Any, actions: Sequence[Any]) -> list[float]:
        names = [_name(action) for action in actions]
        if self._bandit is None:
            self._bandit = OfflineBandit(Bandit(names, **self._settings))  # type: ignore[arg-type]
        preview = self._bandit.preview(_features(context), names)
        by_name = dict(zip(self._bandit.arms, preview.probabilities.tolist(), strict=True))
        return [by_name[name] for name in names]


def _name(action: Any) -> Arm:
    """Return the arm of an action. coba turns the actions 0 and 1 into floats.

    >>> _name(1.0), _name("red"), _name((0, 1))
    (1, 'red', '(0, 1)')
    """
    if isinstance(action, int | float) and float(action).is_integer():
        return int(action)
    return str(tuple(action) if isinstance(action, list | tuple) else action)


def _features(context: Any) -> Any:
    """Return a context in a form that ``Bandit`` accepts.

    >>> _features(None), _features(0.5), _features((0.5, "FR")), _features({"age": 31})
    ({}, [0.5], [0.5, 'FR'], {'age': 31})
    """
    if context is None:
        return {}
    if isinstance(context, Mapping) or hasattr(context, "items"):
        return dict(context.items())
    is_sequence = hasattr(context, "__iter__") and not isinstance(context, str)
    return list(context) if is_sequence else [context]
