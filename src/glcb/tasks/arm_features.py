"""Tasks whose arms have features: a synthetic catalog, and the choice of a language model for a prompt.

Their streams have ``arm_features``. Benchmark policies do not use them and learn about every arm separately;
``python -m benchmarks.studies arms`` compares them with policies that use arm features.
"""

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from glcb._arrays import Float32, Float64
from glcb._errors import DataError
from glcb._prompts import PROMPT_COUNTS, prompt_counts
from glcb._types import Rewards
from glcb.tasks.base import STEPS, Stream, min_max, stream_generators
from glcb.tasks.data.directory import EXTENSIONS, data_directory, open_text
from glcb.tasks.prompts import WordComponents
from glcb.tasks.registry import register

ARM_FEATURES, RELEVANT = 12, 6
"""Number of features of a synthetic arm, and how many features of an arm and of the context matter."""
OWN_EFFECT = 0.5
"""Standard deviation of the effect of a synthetic arm beyond its features."""
PROMPTS, MODELS = "llmrouter.json", "llmrouter_model_embeddings.json"
"""The files of the routing data."""
COMPONENTS = 25
"""Number of components of a prompt's words."""
EMBEDDING_COMPONENTS = 8
"""Number of components of a model's description."""
UNSCORED = 608
"""The first prompts define the words and components, and are not scored."""


@register
class ArmCatalog:
    """A catalog of 1,000 arms that come and go, about 60 at a time. Rewards are 0 or 1.

    Half of the twelve features of an arm matter, and six of the nine features of a context. The logit of the
    reward is bilinear in arm and context, with a sine wave in the first context feature whose sign depends on
    the arm, plus an effect of each arm beyond its features.
    """

    name = "arm-catalog"
    arms: tuple[int, ...] = tuple(range(1000))
    features = 9
    rewards: Rewards = "binary"
    alive = 60

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``."""
        arm_rng, context_rng, reward_rng = stream_generators(seed, steps, 3)
        count = len(self.arms)
        arms = arm_rng.random((count, ARM_FEATURES), np.float32)
        contexts = context_rng.random((steps, self.features), np.float32)
        wins = _draw(_probabilities(contexts, arms, arm_rng.standard_normal(count)), reward_rng)
        born = arm_rng.integers(-steps // 10, steps, count)
        life = 1 + arm_rng.exponential(1.1 * self.alive * steps / count, count).astype(int)
        step = np.arange(steps)[:, None]
        available = (born <= step) & (step < born + life)
        available[~available.any(axis=1), 0] = True
        return Stream(contexts, wins, available, arm_features=arms)


@register
class ArmNewcomer:
    """Twenty arms with features, and a new arm similar to one of them, available from the middle of the run.

    Contexts, features and rewards are as in the catalog. Of 50 possible arms, each close to one of the
    twenty, the new arm is one that is best in about a quarter of the contexts.

    Parameters
    ----------
    best_in
        The share of contexts in which the new arm is best, approximately; with 0, it is never needed.
    """

    name = "arm-newcomer"
    arms: tuple[int, ...] = tuple(range(21))
    features = 9
    rewards: Rewards = "binary"
    steps = 6000

    def __init__(self, best_in: float = 0.25) -> None:
        self.best_in = best_in

    @property
    def newcomer(self) -> int:
        """The new arm."""
        return self.arms[-1]

    @staticmethod
    def arrival(steps: int) -> int:
        """Return the first step at which the new arm is available."""
        return steps // 2

    def stream(self, seed: int, steps: int = steps) -> Stream:
        """Return the stream of ``seed``."""
        arms, contexts, probabilities, reward_rng = self._parts(seed, steps)
        available = np.ones(probabilities.shape, bool)
        available[: self.arrival(steps), self.newcomer] = False
        return Stream(contexts, _draw(probabilities, reward_rng), available, arm_features=arms)

    def expected(self, seed: int, steps: int = steps) -> Float64:
        """Return the probability of a reward of 1, by step and arm, including the new arm from the start."""
        return self._parts(seed, steps)[2]

    def _parts(self, seed: int, steps: int) -> tuple[Float32, Float32, Float64, np.random.Generator]:
        arm_rng, context_rng, reward_rng = stream_generators(seed, steps, 3)
        known = arm_rng.random((self.newcomer, ARM_FEATURES), np.float32)
        similar = known[arm_rng.integers(self.newcomer, size=50)]
        similar = (similar + arm_rng.uniform(-0.1, 0.1, similar.shape).astype(np.float32)).clip(0, 1)
        contexts = context_rng.random((steps, self.features), np.float32)
        arms = np.concatenate([known, similar])
        probabilities = _probabilities(contexts, arms, arm_rng.standard_normal(len(arms)))
        known = probabilities[:, : self.newcomer].max(axis=1, keepdims=True)
        shares = (probabilities[:, self.newcomer :] > known).mean(axis=0)
        kept = [*range(self.newcomer), self.newcomer + int(np.abs(shares - self.best_in).argmin())]
        return arms[kept], contexts, probabilities[:, kept], reward_rng


def _probabilities(contexts: Float32, arms: Float32, own: Float64) -> Float64:
    """Return the probability of a reward of 1, by context and arm; ``own`` is the effect beyond features."""
    bilinear = np.random.default_rng(2026).standard_normal((RELEVANT, RELEVANT))
    x, a = 2.0 * contexts[:, :RELEVANT] - 1, 2.0 * arms[:, :RELEVANT] - 1
    logits = x @ bilinear @ a.T + np.sin(3 * x[:, :1]) * np.sign(a[:, 1]) + OWN_EFFECT * own - 1.5
    probabilities: Float64 = 1 / (1 + np.exp(-logits))
    return probabilities


def _draw(probabilities: Float64, rng: np.random.Generator) -> Float64:
    """Return rewards of 0 and 1; the arms of a step share a random number."""
    return (rng.random((len(probabilities), 1)) < probabilities).astype(np.float64)


@register
class ModelRouting:
    """Choose one of nine language models for a prompt. The reward is the score of its answer, from 0 to 1.

    The context has simple counts of the prompt and 25 components of its words (TF-IDF and singular vectors,
    fitted on the first 608 prompts, which are not scored). The features of a model are 8 components of the
    embedding of its description, and its prices.

    The data comes from LLMRouter (ulab-uiuc, MIT license): llmrouter.json and llmrouter_model_embeddings.json
    in the folder ``routing`` of the data directory.
    """

    name = "model-routing"
    arms: tuple[str, ...] = (
        "codegemma-7b",
        "gemma-2-9b-it",
        "llama-3.1-8b-instruct",
        "llama-3.1-nemotron-51b-instruct",
        "llama-3.3-nemotron-super-49b-v1",
        "llama3-chatqa-1.5-70b",
        "llama3-chatqa-1.5-8b",
        "mistral-7b-instruct-v0.3",
        "qwen2.5-7b-instruct",
    )
    features = len(PROMPT_COUNTS) + COMPONENTS
    rewards: Rewards = (0.0, 1.0)
    rows = 5000

    def has_data(self) -> bool:
        """Return whether both files are present."""
        return all(_find(name) is not None for name in (PROMPTS, MODELS))

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``: the prompts in random order."""
        (rng,) = stream_generators(seed, steps, 1)
        contexts, scores, arms = self._parsed
        order = rng.permutation(len(scores))[:steps]
        return Stream(contexts[order], scores[order], arm_features=arms.copy())

    @cached_property
    def _parsed(self) -> tuple[Float32, Float64, Float32]:
        """The contexts, the score of every model, and the features of the models."""
        rows, models = _read(PROMPTS), _read(MODELS)
        scores = np.array([[float(row["scores"][model]) for model in self.arms] for row in rows])
        texts = [str(row["question"]) for row in rows]
        counts = np.array([prompt_counts(text) for text in texts])
        contexts = min_max(np.hstack([counts, WordComponents(texts[:UNSCORED], COMPONENTS)(texts)]))
        arms = _model_features([models[model] for model in self.arms])
        return contexts[UNSCORED:], scores[UNSCORED:].clip(0, 1), arms

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()  # a copy in another process reads the files itself


def _find(name: str) -> Path | None:
    """Return the path of a file of the routing data, plain or compressed."""
    paths = (data_directory() / "routing" / (name + ending) for ending in EXTENSIONS)
    return next((path for path in paths if path.is_file()), None)


def _read(name: str) -> Any:
    path = _find(name)
    if path is None:
        raise DataError(
            f"the task 'model-routing' needs the file {name} in {data_directory() / 'routing'}: copy it to "
            "that folder, or set GLCB_DATA_DIR to the folder that contains routing"
        )
    with open_text(path) as file:
        return json.load(file)


def _model_features(models: list[dict[str, Any]]) -> Float32:
    """Return components of the embeddings, and the logarithms of the prices."""
    embeddings = np.array([model["embedding"] for model in models], float)
    centered = embeddings - embeddings.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centered, full_matrices=False)
    components = (left * sizes)[:, :EMBEDDING_COMPONENTS]
    prices = np.log([[float(model["input_price"]), float(model["output_price"])] for model in models])
    return min_max(np.hstack([components, prices]))
