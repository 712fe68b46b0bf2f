"""Tasks whose arms have features: a synthetic catalog, and the choice of a language model for a prompt.

They are not in the registry of tasks: its policies do not use features of arms. ``benchmarks/arms.py`` runs
them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from glcb._arrays import Bool, Float32, Float64
from glcb._prompts import prompt_counts
from glcb._types import Rewards
from glcb.tasks.base import min_max, stream_generators
from glcb.tasks.data.directory import data_directory
from glcb.tasks.prompts import WordComponents
from glcb.tasks.routing import find_file, read_json

COMPONENTS = 25
"""Number of components of the words of a prompt."""
EMBEDDING_COMPONENTS = 8
"""Number of components of the description of a model."""
UNSCORED = 608
"""The first prompts define the words and components, and are not scored."""


@dataclass(frozen=True, eq=False)
class ArmStream:
    """The contexts of one run, the features of the arms, and the reward of every arm at every step.

    Parameters
    ----------
    contexts : ndarray of float32, shape (steps, features)
        One context per step, scaled to [0, 1].
    arms : ndarray of float32, shape (arms, arm features)
        The features of each arm, scaled to [0, 1].
    rewards : ndarray of float64, shape (steps, arms)
        The reward that each arm would pay at each step.
    available : ndarray of bool, shape (steps, arms)
        Whether each arm can be chosen at each step.
    """

    contexts: Float32
    arms: Float32
    rewards: Float64
    available: Bool

    @property
    def optimum(self) -> float:
        """Total reward of choosing the best available arm at every step."""
        return float(np.where(self.available, self.rewards, -np.inf).max(axis=1).sum())

    @property
    def uniform(self) -> float:
        """Expected total reward of choosing an available arm at random."""
        return float((self.rewards * self.available).sum(axis=1) @ (1 / self.available.sum(axis=1)))


class ArmCatalog:
    """A catalog of 1,000 arms that come and go, about 60 at a time. Rewards are 0 or 1.

    Half of the twelve features of an arm matter, and six of the nine features of a context. The logit of the
    reward is bilinear in both, with a wave in the first context feature whose sign depends on the arm, plus
    an effect of each arm that its features do not show.
    """

    name = "arm-catalog"
    rewards: Rewards = "binary"
    catalog, alive = 1000, 60
    relevant, context_noise, arm_noise = 6, 3, 6
    own_effect = 0.5

    def stream(self, seed: int, steps: int = 5000) -> ArmStream:
        """Return the stream of ``seed``."""
        arm_rng, context_rng, reward_rng = stream_generators(seed, steps, 3)
        arms = arm_rng.random((self.catalog, self.relevant + self.arm_noise), np.float32)
        contexts = context_rng.random((steps, self.relevant + self.context_noise), np.float32)
        bilinear = np.random.default_rng(2026).standard_normal((self.relevant, self.relevant))
        own = self.own_effect * arm_rng.standard_normal(self.catalog)
        x, a = 2.0 * contexts[:, : self.relevant] - 1, 2.0 * arms[:, : self.relevant] - 1
        logits = x @ bilinear @ a.T + np.sin(3 * x[:, :1]) * np.sign(a[:, 1]) + own - 1.5
        wins = reward_rng.random((steps, 1)) < 1 / (1 + np.exp(-logits))
        born = arm_rng.integers(-steps // 10, steps, self.catalog)
        life = 1 + (arm_rng.exponential(1.1 * self.alive * steps / self.catalog, self.catalog)).astype(int)
        step = np.arange(steps)[:, None]
        available = (born <= step) & (step < born + life)
        available[~available.any(axis=1), 0] = True
        return ArmStream(contexts, arms, wins.astype(np.float64), available)


class ModelRouting:
    """Choose one of 9 language models for a prompt. The reward is the score of its answer, from 0 to 1.

    The context has simple counts of the prompt and 25 components of its words (TF-IDF and singular vectors,
    fitted on the first 608 prompts, which are not scored). The features of a model are 8 components of the
    embedding of its description, and its prices. Data: LLMRouter (ulab-uiuc, MIT license).

    Raises
    ------
    DataError
        If the data directory has no folder ``routing``.
    """

    name = "model-routing"
    rewards: Rewards = (0.0, 1.0)

    def __init__(self) -> None:
        folder = data_directory() / "routing"
        rows, models = (
            read_json(find_file(folder, name))
            for name in ("llmrouter.json", "llmrouter_model_embeddings.json")
        )
        self.models = tuple(sorted(rows[0]["scores"]))
        scores = np.array([[float(row["scores"][model]) for model in self.models] for row in rows])
        texts = [str(row["question"]) for row in rows]
        words = WordComponents(texts[:UNSCORED], COMPONENTS)(texts)
        contexts = min_max(np.hstack([np.array([prompt_counts(text) for text in texts]), words]))
        self._contexts, self._scores = contexts[UNSCORED:], scores[UNSCORED:].clip(0, 1)
        self._arms = _model_features([models[model] for model in self.models])

    def stream(self, seed: int, steps: int = 5000) -> ArmStream:
        """Return the stream of ``seed``: the prompts in random order."""
        (rng,) = stream_generators(seed, steps, 1)
        order = rng.permutation(len(self._scores))[:steps]
        available = np.ones((len(order), len(self.models)), bool)
        return ArmStream(self._contexts[order], self._arms, self._scores[order], available)


def _model_features(models: list[dict[str, Any]]) -> Float32:
    """Return components of the embeddings, and the logarithms of the prices."""
    embeddings = np.array([model["embedding"] for model in models], float)
    centered = embeddings - embeddings.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centered, full_matrices=False)
    components = (left * sizes)[:, :EMBEDDING_COMPONENTS]
    prices = np.log([[float(model["input_price"]), float(model["output_price"])] for model in models])
    return min_max(np.hstack([components, prices]))
