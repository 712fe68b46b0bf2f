"""Principal components of prompt words."""

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from glcb._arrays import Bool, Float64

VOCABULARY = 2000
"""Number of words, most frequent first."""


class WordComponents:
    """TF-IDF of the most frequent words of some texts, projected on their first singular vectors.

    Parameters
    ----------
    texts
        The texts that define the words and the components.
    components
        Number of components, at most the number of texts.

    Examples
    --------
    >>> words = WordComponents(["a small model", "a large model", "the price of a model"], 2)
    >>> words(["a large price"]).shape
    (1, 2)
    """

    def __init__(self, texts: Sequence[str], components: int) -> None:
        frequency = Counter(word for text in texts for word in set(_words(text)))
        self._index = {word: i for i, (word, _) in enumerate(frequency.most_common(VOCABULARY))}
        self._idf = np.array([math.log((1 + len(texts)) / (1 + frequency[word])) + 1 for word in self._index])
        _, _, vectors = np.linalg.svd(self._weights(texts), full_matrices=False)
        self._vectors: Float64 = vectors[:components]

    def __call__(self, texts: Sequence[str]) -> Float64:
        """Return the components of each text, one row per text."""
        components: Float64 = self._weights(texts) @ self._vectors.T
        return components

    def occurrences(self, texts: Sequence[str]) -> Bool:
        """Return whether each word occurs in each text, most frequent words first."""
        occurs: Bool = np.zeros((len(texts), len(self._index)), np.bool_)
        for row, text in enumerate(texts):
            occurs[row, [self._index[word] for word in _words(text) if word in self._index]] = True
        return occurs

    def _weights(self, texts: Sequence[str]) -> Float64:
        """Return the normalized weight of each word in each text."""
        counts = np.zeros((len(texts), len(self._index)))
        for row, text in enumerate(texts):
            for word, count in Counter(_words(text)).items():
                if word in self._index:
                    counts[row, self._index[word]] = 1 + math.log(count)
        weighted: Float64 = counts * self._idf
        weighted /= np.maximum(np.linalg.norm(weighted, axis=1, keepdims=True), 1e-12)
        return weighted


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]{2,}", text.lower())
