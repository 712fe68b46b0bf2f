"""Routing: which language model should answer a prompt?

Contexts are prompt counts and components of prompt words, which are fitted on prompts that are not scored.
The rewards do not include costs: a :class:`RoutingStream` has both, as a router with a budget needs.
"""

import json
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from glcb._arrays import Float32, Float64
from glcb._errors import DataError, InvalidSettings
from glcb._prompts import PROMPT_COUNTS, prompt_counts
from glcb._types import Rewards
from glcb.tasks.base import STEPS, Stream, min_max, stream_generators
from glcb.tasks.data.cache import ParsedData
from glcb.tasks.data.directory import EXTENSIONS, DataFile, Facts, open_text
from glcb.tasks.file_task import FileTask
from glcb.tasks.prompts import WordComponents
from glcb.tasks.registry import register

COMPONENTS = 25
"""Number of components of a prompt's words."""
_ORDER = 2026
"""Seed of the order that separates the unscored prompts: the files are sorted by subject."""


@dataclass(frozen=True, eq=False)
class RoutingStream(Stream):
    """A stream with the cost of every arm at every step, and the prompts.

    Parameters
    ----------
    costs : ndarray of float64, shape (steps, arms)
        The cost of each arm at each step.
    counts : ndarray of float64, shape (steps, 7)
        Counts of each prompt, in the order of ``PROMPT_COUNTS``.
    embeddings : ndarray of float64, shape (steps, components)
        The components of each prompt's words.
    """

    costs: Float64 = None  # type: ignore[assignment]  # the fields before it have defaults
    counts: Float64 = None  # type: ignore[assignment]
    embeddings: Float64 = None  # type: ignore[assignment]

    def features(self, step: int) -> dict[str, Any]:
        """Return the features of a prompt by name, as for a router: its counts and its embedding."""
        counts = zip(PROMPT_COUNTS, self.counts[step].tolist(), strict=True)
        return {**dict(counts), "embedding": self.embeddings[step]}


class RoutingTask(FileTask):
    """A table of prompts with the reward and the cost of every model.

    Parameters
    ----------
    components : int, default 25
        Number of components of a prompt's words.

    Raises
    ------
    InvalidSettings
        If the number of components is out of range.
    """

    name: ClassVar[str]
    rewards: ClassVar[Rewards]
    unscored: ClassVar[int]
    """Number of prompts that define the words and components, and are not scored."""
    max_components: ClassVar[int]
    """Number of components that are computed."""

    def __init__(self, components: int = COMPONENTS) -> None:
        if not 1 <= components <= self.max_components:
            raise InvalidSettings(
                f"components must be from 1 to {self.max_components} for {self.name}, got {components}"
            )
        self.components = components

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.components,)

    @classmethod
    @abstractmethod
    def read_table(cls, path: Path) -> tuple[list[str], list[str], Float64, Float64]:
        """Return the prompts, the models, and the rewards and costs: one row per prompt."""

    @classmethod
    def read(cls, path: Path) -> ParsedData:
        """Parse ``path``. The prompts that are not scored come first."""
        try:
            prompts, models, rewards, costs = cls.read_table(path)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path} must hold prompts with the scores of models: {error}") from error
        order = np.random.default_rng(_ORDER).permutation(len(prompts))
        texts = [prompts[row] for row in order]
        words = WordComponents(texts[: cls.unscored], cls.max_components)
        arrays = {
            "rewards": rewards[order],
            "costs": costs[order],
            "counts": np.array([prompt_counts(text) for text in texts]),
            "components": words(texts),
        }
        return ParsedData(arrays, {"models": models})

    @classmethod
    def facts(cls, parsed: ParsedData) -> Facts:
        """Return the facts that identify the file."""
        rows, arms = parsed.arrays["rewards"].shape
        return Facts(rows, len(PROMPT_COUNTS) + COMPONENTS, arms)

    @property
    def arms(self) -> tuple[str, ...]:
        """The models."""
        return tuple(self._parsed.about["models"])

    @property
    def features(self) -> int:
        """Number of features of a context."""
        return len(PROMPT_COUNTS) + self.components

    @property
    def steps(self) -> int:
        """Number of scored prompts."""
        return self.files[0].facts.rows - self.unscored

    @property
    def unscored_costs(self) -> Float64:
        """The costs of every model for the prompts that are not scored."""
        costs: Float64 = self._parsed.arrays["costs"][: self.unscored]
        return costs

    @cached_property
    def _contexts(self) -> Float32:
        arrays = self._parsed.arrays
        columns = np.hstack([arrays["counts"], arrays["components"][:, : self.components]])
        return min_max(columns)

    def stream(self, seed: int, steps: int = STEPS) -> RoutingStream:
        """Return the stream of ``seed``: the scored prompts in random order."""
        (rng,) = stream_generators(seed, steps, 1)
        arrays = self._parsed.arrays
        order = self.unscored + rng.permutation(len(arrays["rewards"]) - self.unscored)[:steps]
        return RoutingStream(
            self._contexts[order],
            arrays["rewards"][order],
            costs=arrays["costs"][order],
            counts=arrays["counts"][order],
            embeddings=arrays["components"][order, : self.components],
        )


@register
class Routing9(RoutingTask):
    """5,608 prompts, each answered by 9 language models. The reward is 1 if the score is at least ½.

    The cost of a model is its price per million tokens. The context has seven counts of the prompt and 25
    components of its words, fitted on 1,008 prompts that are not scored. Data: LLMRouter (ulab-uiuc).
    """

    name = "routing-9"
    rewards = "binary"
    unscored = 1008
    max_components = 768
    files = (
        DataFile(
            "routing/llmrouter.json",
            Facts(5_608, len(PROMPT_COUNTS) + COMPONENTS, 9),
            "MIT",
            "https://github.com/ulab-uiuc/LLMRouter",
        ),
    )

    @classmethod
    def read_table(cls, path: Path) -> tuple[list[str], list[str], Float64, Float64]:
        """Return the prompts, the models, and the rewards and costs: one row per prompt."""
        rows, about = read_json(path), read_json(find_file(path.parent, "llmrouter_model_embeddings.json"))
        models = sorted(rows[0]["scores"])
        scores = np.array([[float(row["scores"][model]) for model in models] for row in rows])
        prices = [(about[model]["input_price"] + about[model]["output_price"]) / 2 for model in models]
        rewards = (scores >= 0.5).astype(np.float64)
        return [str(row["question"]) for row in rows], models, rewards, np.tile(prices, (len(rows), 1))


@register
class Routing4(RoutingTask):
    """1,766 prompts, each answered by 4 language models. The reward is the score of a judge, from 0 to 1.

    The cost is the answer's cost in dollars. The context has seven prompt counts and 25 components of
    its words, fitted on 266 prompts that are not scored. Data: ParetoBandit.
    """

    name = "routing-4"
    rewards = (0.0, 1.0)
    unscored = 266
    max_components = 200
    files = (
        DataFile(
            "routing/paretobandit_val_k4.jsonl",
            Facts(1_766, len(PROMPT_COUNTS) + COMPONENTS, 4),
            "Apache-2.0",
            "https://github.com/ParetoBandit/ParetoBandit",
        ),
    )

    @classmethod
    def read_table(cls, path: Path) -> tuple[list[str], list[str], Float64, Float64]:
        """Return the prompts, the models, and the rewards and costs: one row per prompt."""
        with open_text(path) as file:
            rows = [json.loads(line) for line in file]
        models = sorted(rows[0]["arms"])
        table = np.array(
            [[(row["arms"][model]["reward"], row["arms"][model]["cost"]) for model in models] for row in rows]
        )
        return [str(row["prompt"]) for row in rows], models, table[:, :, 0].clip(0, 1), table[:, :, 1].copy()


def find_file(folder: Path, name: str) -> Path:
    """Return a file of the routing data, plain or compressed."""
    paths = (folder / (name + extension) for extension in EXTENSIONS)
    found = next((path for path in paths if path.is_file()), None)
    if found is None:
        raise DataError(f"there is no {name} in {folder}: copy the routing data to that folder")
    return found


def read_json(path: Path) -> Any:
    """Return the content of a JSON file, plain or compressed."""
    with open_text(path) as file:
        return json.load(file)
