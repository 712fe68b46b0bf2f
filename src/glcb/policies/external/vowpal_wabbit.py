"""Vowpal Wabbit as a policy: examples, model files, and choices drawn from its probabilities.

Vowpal Wabbit minimizes costs. The cost of a reward is 1 − reward, with rewards scaled to [0, 1]: this is the
range of costs that its exploration algorithms assume by default. An untrained model predicts a cost of 0, the
best one, so arms that were never chosen look good.
"""

import math
import tempfile
import weakref
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from glcb import _validation
from glcb._arrays import Arrays, Float32, Float64, copy_into
from glcb._types import Arm, Rewards, reward_range
from glcb.policies.base import Policy
from glcb.policies.decision import Estimates
from glcb.policies.registry import register

_CONTEXT = ord("s")
"""The namespace of the features, which all arms share. The namespace of the arms is "a"."""
_MIN_BITS = 18
"""The size of the weight table is at least Vowpal Wabbit's default of 2¹⁸."""
_SLOTS_PER_WEIGHT = 4
"""Weights are found by hashing; a larger table has fewer collisions."""
_BYTES_PER_SLOT = 32
"""At most eight numbers per slot in memory, and fewer in a file."""
_HEADER_BYTES = 4096
"""An upper bound on the options and counters at the beginning of a model file."""
_MIN_PROBABILITY = 1e-6
"""Floor for arms that Vowpal Wabbit would never choose. Some of its algorithms divide by the probability."""


class Workspace:
    """A Vowpal Wabbit workspace for a fixed number of features and arms.

    Learning uses the text format. Predictions use examples that are parsed once and whose features are then
    replaced, because Vowpal Wabbit counts every example that it parses: a prediction must not change the
    model. It draws no random numbers.

    Parameters
    ----------
    options
        The command line options of the algorithm.
    features
        The length of a context.
    arms
        The number of arms.
    quadratic
        Whether there are weights for pairs of features.
    copies
        The number of weights that the algorithm keeps for each input.
    content
        The content of a model file to continue from.
    """

    def __init__(
        self,
        options: Sequence[str],
        features: int,
        arms: int,
        *,
        quadratic: bool = False,
        copies: int = 1,
        content: bytes | None = None,
    ) -> None:
        from pylibvw import example
        from vowpalwabbit import Workspace

        inputs = features + features * (features + 1) // 2 if quadratic else features
        weights = (inputs + 1) * (arms + 1)
        bits = max(_MIN_BITS, math.ceil(math.log2(_SLOTS_PER_WEIGHT * weights)))
        _validation.check_memory(2**bits * copies * _BYTES_PER_SLOT, "The weight table of Vowpal Wabbit")
        self.max_bytes = _HEADER_BYTES + weights * copies * _BYTES_PER_SLOT
        """Upper bound on the size of a model file."""
        interactions = ["sa", "ss", "ssa"] if quadratic else ["sa"]
        # Without "sa", all arms have the same weights and differ only by a constant.
        self.arguments = ["--cb_explore_adf", *options, "--bit_precision", str(bits)]
        self.arguments += [word for each in interactions for word in ("--interactions", each)]
        """The arguments that train the same model on the command line."""
        with tempfile.TemporaryDirectory() as folder:
            resumed: list[str] = []
            if content is not None:
                path = Path(folder) / "model"
                path.write_bytes(content)
                resumed = ["--initial_regressor", str(path), "--preserve_performance_counters"]
            self._workspace: Any = Workspace(arg_list=[*self.arguments, *resumed, "--quiet"])
        self._arms = [f"|a {arm}" for arm in range(arms)]
        self._examples = self._workspace.parse([self._context(np.ones(features)), *self._arms])
        weakref.finalize(self, self._workspace.finish_example, self._examples)
        # The binding's own methods: the Python class's methods would parse the example again.
        self._erase, self._push = example.erase_namespace, example.push_feature_list
        self._indices = [example.feature(self._examples[0], _CONTEXT, i) for i in range(features)]

    def predict(self, x: Float32) -> tuple[Float64, Float64]:
        """Return the probability and the predicted cost of each arm. Changes nothing."""
        shared = self._examples[0]
        used = np.flatnonzero(x).tolist()
        self._erase(shared, _CONTEXT)
        features = [(self._indices[i], value) for i, value in zip(used, x[used].tolist(), strict=True)]
        self._push(shared, self._workspace, _CONTEXT, 0, features)
        probabilities = np.array(self._workspace.predict(self._examples))
        costs = np.array([each.get_partial_prediction() for each in self._examples[1:]])
        return probabilities, costs

    def learn(self, x: Float32, arm: int, cost: float, probability: float) -> None:
        """Learn the cost of the arm that was chosen with this probability."""
        self._workspace.learn(self.lines(x, arm, cost, probability))

    def lines(self, x: Float32, arm: int, cost: float, probability: float) -> list[str]:
        """Return an observation in Vowpal Wabbit's text format."""
        lines = [self._context(x), *self._arms]
        lines[1 + arm] = f"0:{cost!r}:{probability!r} {lines[1 + arm]}"
        return lines

    def content(self) -> bytes:
        """Return the content of a model file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            self._workspace.save(path)
            return path.read_bytes()

    @staticmethod
    def _context(x: np.ndarray) -> str:
        used = np.flatnonzero(x).tolist()
        return "shared |s " + " ".join(
            f"{i}:{value!r}" for i, value in zip(used, x[used].tolist(), strict=True)
        )


class VowpalWabbitPolicy(Policy):
    """Draws an arm from the probabilities that Vowpal Wabbit predicts.

    Value plus bonus is ln p plus Gumbel noise. Each arm has the largest sum with its probability p, and
    among eligible arms with proportional probabilities.
    """

    requires = ("vowpalwabbit",)
    extra = "rivals"
    arms_are_independent = False
    is_randomized = True
    predicts_costs: ClassVar[bool] = True
    """Whether the predictions of Vowpal Wabbit are costs. If not, the values are the probabilities."""
    quadratic: ClassVar[bool] = False
    """Whether there are weights for pairs of features."""

    def __init__(
        self, arms: int | Sequence[Arm], features: int, *, rewards: Rewards = "binary", seed: int = 0
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed)
        self._low, self._high = reward_range(self.rewards)
        self._model = self._new_model()
        self._latest: tuple[bytes, Float64, Float64] | None = None

    @abstractmethod
    def _options(self) -> list[str]:
        """Return the command line options of the algorithm."""

    def _copies(self) -> int:
        """Return the number of weights that the algorithm keeps for each input."""
        return 1

    def _new_model(self, content: bytes | None = None) -> Workspace:
        return Workspace(
            self._options(),
            self.features,
            len(self.arms),
            quadratic=self.quadratic,
            copies=self._copies(),
            content=content,
        )

    def _predict(self, x: Float32) -> tuple[Float64, Float64]:
        """Return probabilities and costs. The latest results are cached for ``_learn``."""
        key = x.tobytes()
        if self._latest is None or self._latest[0] != key:
            self._latest = (key, *self._model.predict(x))
        return self._latest[1:]

    def _estimate(self, x: Float32) -> Estimates:
        probabilities, costs = self._predict(x)
        gains = 1 - np.clip(costs, 0, 1) if self.predicts_costs else probabilities
        values = self._low + (self._high - self._low) * gains
        scores = np.log(np.maximum(probabilities, _MIN_PROBABILITY)) + self._rng.gumbel(size=len(self.arms))
        return Estimates(values, scores - values, self._reward_counts.astype(np.float64))

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        probabilities, _ = self._predict(x)
        self._latest = None
        cost = (self._high - reward) / (self._high - self._low)
        self._model.learn(x, arm, cost, max(float(probabilities[arm]), _MIN_PROBABILITY))

    def _snapshot(self) -> Arrays:
        content = np.frombuffer(self._model.content(), np.uint8)
        # The file grows with the number of weights that are not zero, but the array does not.
        padded = np.zeros(self._model.max_bytes, np.uint8)
        padded[: content.size] = content
        return {"model": padded, "model_bytes": np.array([content.size])}

    def _restore(self, arrays: Arrays) -> None:
        restored = self._snapshot()
        copy_into(restored, arrays)
        content = restored["model"][: int(restored["model_bytes"][0])]
        try:
            self._model = self._new_model(content.tobytes())
        except RuntimeError as error:
            raise ValueError(f"Vowpal Wabbit cannot read the model: {error}") from error


_SOURCE = "Foster, Rakhlin 2020; Vowpal Wabbit"


@register("vw-squarecb", source=_SOURCE)
class VWSquareCB(VowpalWabbitPolicy):
    """Vowpal Wabbit: linear regression; the larger the gap to the best arm, the less likely an arm.

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.
    gamma_scale
        How fast exploration decreases, more than 0.

    References
    ----------
    Foster, Rakhlin: Beyond UCB: optimal and efficient contextual bandits with regression oracles. ICML, 2020.
    """

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        gamma_scale: float = 10.0,
    ) -> None:
        self.gamma_scale = _validation.number("gamma_scale", gamma_scale, 1e-6)
        super().__init__(arms, features, rewards=rewards, seed=seed)

    def _options(self) -> list[str]:
        return ["--squarecb", "--gamma_scale", repr(self.gamma_scale)]


@register("vw-squarecb-quadratic", source=_SOURCE)
class VWSquareCBQuadratic(VWSquareCB):
    """Vowpal Wabbit: SquareCB with weights for all pairs of features, shared and per arm.

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.
    gamma_scale
        How fast exploration decreases, more than 0.
    """

    quadratic = True


@register("vw-regcb", source="Foster, Agarwal, Dudík, Luo, Schapire 2018; Vowpal Wabbit")
class VWRegCB(VowpalWabbitPolicy):
    """Vowpal Wabbit: a random arm among those whose confidence interval reaches the best lower bound.

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.
    mellowness
        The width of the confidence intervals, at least 0.

    References
    ----------
    Foster, Agarwal, Dudík, Luo, Schapire: Practical contextual bandits with regression oracles. ICML, 2018.
    """

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        mellowness: float = 0.001,
    ) -> None:
        self.mellowness = _validation.number("mellowness", mellowness, 0)
        super().__init__(arms, features, rewards=rewards, seed=seed)

    def _options(self) -> list[str]:
        return ["--regcb", "--mellowness", repr(self.mellowness)]


@register("vw-cover", source="Agarwal, Hsu, Kale, Langford, Li, Schapire 2014; Vowpal Wabbit")
class VWCover(VowpalWabbitPolicy):
    """Vowpal Wabbit: online cover, several models that are trained to choose different good arms.

    There is no additional uniform exploration. The weights are learned by coin betting, which has no
    learning rate. The values are arm probabilities, scaled to the reward range: the last model does not
    predict rewards.

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.
    cover
        The number of models, from 1 to 64.
    psi
        How strongly the models prefer arms that other models do not choose, at least 1e-6.

    References
    ----------
    Agarwal, Hsu, Kale, Langford, Li, Schapire: Taming the monster: a fast and simple algorithm for contextual
    bandits. ICML, 2014.
    """

    predicts_costs = False

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        cover: int = 4,
        psi: float = 0.1,
    ) -> None:
        self.cover = _validation.integer("cover", cover, 1, 64)
        self.psi = _validation.number("psi", psi, 1e-6)
        super().__init__(arms, features, rewards=rewards, seed=seed)

    def _options(self) -> list[str]:
        # Model files lack a part of the state of Vowpal Wabbit's default optimizer: the scale of each model.
        return ["--cover", str(self.cover), "--psi", repr(self.psi), "--nounif", "--coin"]

    def _copies(self) -> int:
        return 2 * self.cover


@register("vw-epsilon-greedy", source="Orabona, Tommasi 2017; Vowpal Wabbit")
class VWEpsilonGreedy(VowpalWabbitPolicy):
    """Vowpal Wabbit: the arm with the best linear value, and with probability ``epsilon`` a random arm.

    The weights are learned by coin betting, which has no learning rate.

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.
    epsilon
        The probability of a random choice, from 0 to 1.

    References
    ----------
    Orabona, Tommasi: Training deep networks without learning rates through coin betting. NIPS, 2017.
    """

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        epsilon: float = 0.05,
    ) -> None:
        self.epsilon = _validation.number("epsilon", epsilon, 0, 1)
        super().__init__(arms, features, rewards=rewards, seed=seed)

    def _options(self) -> list[str]:
        return ["--epsilon", repr(self.epsilon), "--coin"]
