"""Embeddings of prompts, with a deadline."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glcb._arrays import Float64

Embed = Callable[[str], Sequence[float] | Any]
"""Returns the embedding of a prompt: a vector of numbers."""

MAX_RUNNING = 8
"""Maximum number of concurrent calls, including calls past their deadline."""


class Embedder:
    """Calls a function that may be slow or fail.

    Parameters
    ----------
    embed
        The function.
    timeout
        Seconds to wait for it.
    """

    def __init__(self, embed: Embed, timeout: float) -> None:
        self._embed = embed
        self._timeout = timeout
        self._slots = threading.BoundedSemaphore(MAX_RUNNING)

    def __call__(self, prompt: str) -> Float64 | None:
        """Return the embedding, or None if the function fails, is late, or returns no vector.

        A late call ends in the background; its result is discarded.
        """
        if not self._slots.acquire(blocking=False):
            return None
        results: list[Any] = []
        finished = threading.Event()

        def run() -> None:
            try:
                results.append(self._embed(prompt))
            except Exception:
                results.clear()
            finally:
                self._slots.release()
                finished.set()

        # A daemon thread: a call that never returns must not keep the process alive.
        threading.Thread(target=run, name="glcb-embed", daemon=True).start()
        if not finished.wait(self._timeout) or not results:
            return None
        try:
            vector: Float64 = np.asarray(results[0], np.float64)
        except (TypeError, ValueError):
            return None
        return vector if vector.ndim == 1 and vector.size and np.isfinite(vector).all() else None
