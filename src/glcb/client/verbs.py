"""What can be asked of the service and of an experiment: written once as talks, run by either client."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar, Unpack
from urllib.parse import quote

from glcb._api.responses import (
    Decision,
    ExperimentInfo,
    Experiments,
    Explanation,
    Results,
    State,
    Stats,
    Taken,
)
from glcb._errors import GlcbError, LogError, ModelFileError
from glcb.client import parts
from glcb.client.files import Target
from glcb.client.talk import JSON, Reply, Request, Retries, Talk, ask, converted, read

T = TypeVar("T")

GivenReward = tuple[str, float] | tuple[str, float, str]
"""The id of a decision, its reward, and perhaps a key."""


class Settings(TypedDict, total=False):
    """How an experiment can be made: the arguments of ``glcb.Bandit``, and the share of the hold-out."""

    policy: str
    rewards: Literal["binary"] | tuple[float, float]
    exploration: float
    exploration_mode: Literal["gap", "uniform"]
    schema: dict[str, Any] | None
    spare_slots: int | None
    max_pending: int
    reward_timeout: float | None
    default_reward: float | None
    reward_aggregation: Literal["first", "last", "sum", "max"]
    half_life: int | None
    seed: int
    policy_settings: dict[str, Any] | None
    holdout: float


class Changes(TypedDict, total=False):
    """What can change while an experiment runs."""

    exploration: float
    exploration_mode: Literal["gap", "uniform"]
    holdout: float


@dataclass(frozen=True)
class ServiceVerbs:
    """What can be asked of the service."""

    retries: Retries

    def create(self, name: str, arms: Sequence[str], settings: Settings) -> Talk[ExperimentInfo]:
        """Create an experiment; if it is there with the same settings, nothing happens."""
        body = parts.encoded({"arms": list(arms), **settings})
        return read((yield from ask(Request("PUT", parts.path(name), body), self.retries)), ExperimentInfo)

    def experiments(self) -> Talk[tuple[ExperimentInfo, ...]]:
        """Return all experiments that the key may see."""
        reply = yield from ask(Request("GET", "v1/experiments"), self.retries)
        return read(reply, Experiments).experiments


@dataclass(frozen=True)
class ExperimentVerbs:
    """What can be asked of an experiment."""

    name: str
    retries: Retries

    # ---- deciding and learning ------------------------------------------------------------------

    def decide(
        self, context: Any, *, eligible: Iterable[str] | None = None, idempotency_key: str | None = None
    ) -> Talk[Decision]:
        """Choose an arm for a context: a dict, a row of a data frame, or a list or array of values.

        Only ``eligible`` arms are considered, if given. Of all calls with the same ``idempotency_key`` the first decides
        and the others, which must ask for exactly the same, get the same decision; without one, every call is
        a new decision, and one only, however often it has to be sent.
        """
        body = {**parts.asked(context, eligible), "idempotency_key": parts.key(idempotency_key)}
        return (yield from self._ask("POST", "decisions", body, Decision))

    def reward(self, decision: str, value: float, *, idempotency_key: str | None = None) -> Talk[bool]:
        """Report the reward of the decision with this id; return whether it was taken.

        It was not if a reward of this decision came with the same ``idempotency_key`` before. Without a key, every call
        is a reward of its own, however often it has to be sent. If an answer got lost, so that nobody can
        tell which attempt brought the reward, it counts as taken.
        """
        body = {"value": parts.reward(value), "idempotency_key": parts.key(idempotency_key)}
        reply = yield from self._send("POST", f"decisions/{parts.decision_path(decision)}/reward", body)
        return _was_taken(read(reply, Taken), reply.doubtful)

    def decide_many(
        self, contexts: Iterable[Any], *, eligible: Iterable[str] | None = None
    ) -> Talk[list[Decision | GlcbError]]:
        """Decide for every context, in their order; where one is refused, the error stands in its place.

        If a context cannot be sent at all, InvalidContext is raised, and nothing is.
        """
        allowed = None if eligible is None else list(eligible)
        items = [{**parts.asked(context, allowed), "idempotency_key": parts.key()} for context in contexts]
        results = yield from self._many("decisions/batch", "decisions", items, Decision)
        return [decision for decision, _ in results]

    def reward_many(self, rewards: Iterable[GivenReward]) -> Talk[list[bool | GlcbError]]:
        """Report many rewards, each as (id, value) or (id, value, key).

        Return whether each was taken, as :meth:`reward` does; where one is refused, the error stands in its
        place.
        """
        items = [
            {
                "id": parts.decision(one[0]),
                "value": parts.reward(one[1]),
                "idempotency_key": parts.key(*one[2:]),
            }
            for one in rewards
        ]
        results = yield from self._many("rewards", "rewards", items, Taken)
        return [
            taken if isinstance(taken, GlcbError) else _was_taken(taken, doubtful)
            for taken, doubtful in results
        ]

    def explain(self, context: Any, *, eligible: Iterable[str] | None = None) -> Talk[Explanation]:
        """Return why which arm would be played; nothing is decided or learned."""
        return (yield from self._ask("POST", "explain", parts.asked(context, eligible), Explanation))

    # ---- arms and states ------------------------------------------------------------------------

    def add_arm(self, name: str, *, like: str | None = None) -> Talk[ExperimentInfo]:
        """Add an arm: a fresh one, or one that starts with all that the arm ``like`` has learned."""
        return (
            yield from self._ask(
                "POST", "arms", {"name": name, "like": like}, ExperimentInfo, repeatable=False
            )
        )

    def remove_arm(self, name: str) -> Talk[ExperimentInfo]:
        """Remove an arm with all it has learned; its decisions no longer wait for a reward."""
        path = f"arms/{parts.arm(name)}"
        return (yield from self._ask("DELETE", path, None, ExperimentInfo, repeatable=False))

    def change(self, **changes: Unpack[Changes]) -> Talk[ExperimentInfo]:
        """Change how much is explored, in which way, or the share of the hold-out, from now on."""
        return (yield from self._ask("PATCH", "", changes, ExperimentInfo))

    def pause(self) -> Talk[ExperimentInfo]:
        """Refuse decisions until :meth:`resume`; rewards are still taken."""
        return self._become("paused")

    def resume(self) -> Talk[ExperimentInfo]:
        """Decide again."""
        return self._become("running")

    def archive(self) -> Talk[ExperimentInfo]:
        """Refuse decisions and rewards; everything can still be looked at."""
        return self._become("archived")

    def delete(self) -> Talk[None]:
        """Remove the experiment and everything of it."""
        yield from ask(Request("DELETE", parts.path(self.name), repeatable=False), self.retries)

    def _become(self, state: State) -> Talk[ExperimentInfo]:
        return self._ask("PATCH", "", {"state": state}, ExperimentInfo)

    # ---- looking at it --------------------------------------------------------------------------

    def info(self) -> Talk[ExperimentInfo]:
        """Return how the experiment was made and where it stands."""
        return self._ask("GET", "", None, ExperimentInfo)

    def stats(self) -> Talk[Stats]:
        """Return how the experiment fares: lift, arms, course, refusals, latency, health."""
        return self._ask("GET", "stats", None, Stats)

    def export(
        self,
        path: str | PathLike[str],
        *,
        format: Literal["jsonl", "parquet"] = "jsonl",  # noqa: A002
        after: int = 0,
    ) -> Talk[None]:
        """Write all decisions and rewards to a file, or those after the event with this number.

        ``Bandit.learn_from`` reads such a file. It has each reward as it came; what was learned when the
        ``reward_timeout`` of a decision was over is in the model alone.
        """
        where = f"{parts.path(self.name)}/export?format={quote(format, safe='')}&after={int(after)}"
        yield from ask(Request("GET", where, into=Target(Path(path), LogError)), self.retries)

    # ---- models ---------------------------------------------------------------------------------

    def save_model(self, path: str | PathLike[str]) -> Talk[None]:
        """Save the bandit to a file; ``Bandit.load`` reads it."""
        yield from ask(
            Request("GET", f"{parts.path(self.name)}/model", into=Target(Path(path), ModelFileError)),
            self.retries,
        )

    def load_model(self, path: str | PathLike[str]) -> Talk[ExperimentInfo]:
        """Put the bandit of a file in the place of the experiment's own, with its arms and settings."""
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise ModelFileError(f"cannot read {path}: {error.strerror or error}") from error
        request = Request("PUT", f"{parts.path(self.name)}/model", content, "application/octet-stream")
        return read((yield from ask(request, self.retries)), ExperimentInfo)

    # ---- how it is asked ------------------------------------------------------------------------

    def _ask(self, method: str, path: str, body: Any, kind: type[T], *, repeatable: bool = True) -> Talk[T]:
        return read((yield from self._send(method, path, body, repeatable=repeatable)), kind)

    def _send(self, method: str, path: str, body: Any, *, repeatable: bool = True) -> Talk[Reply]:
        content = None if body is None else parts.encoded(body)
        where = f"{parts.path(self.name)}/{path}" if path else parts.path(self.name)
        return ask(Request(method, where, content, JSON, repeatable=repeatable), self.retries)

    def _many(
        self, path: str, field: str, items: list[dict[str, Any]], kind: type[T]
    ) -> Talk[list[tuple[T | GlcbError, bool]]]:
        """Return what became of each item, and whether its answer was doubtful."""
        results: list[tuple[T | GlcbError, bool]] = []
        for content in parts.pieces(field, items):
            try:
                reply = yield from ask(
                    Request("POST", f"{parts.path(self.name)}/{path}", content), self.retries
                )
            except GlcbError as error:
                if not results:
                    raise
                return [*results, *[(error, False)] * (len(items) - len(results))]
            results.extend((_item(item, kind), reply.doubtful) for item in read(reply, Results).results)
        return results


def _item(content: dict[str, Any], kind: type[T]) -> T | GlcbError:
    try:
        return converted(content, kind)
    except GlcbError as error:
        return error


def _was_taken(taken: Taken, doubtful: bool) -> bool:
    """Return whether a call brought a reward: what is "repeated" may repeat an attempt of its own."""
    return taken.status == "taken" or doubtful
