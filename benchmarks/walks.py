"""Random sequences of requests to an experiment: ``make soak``.

Decisions, rankings, rewards, changes of arms, settings and models, in any order and with odd values. At any
time, the state must equal a restored snapshot and a replay; a rejected or repeated request and a read must
change nothing; and every decision must be counted in exactly one way.

With ``--processors``, every walk is interrupted and continues in a process whose kernels are compiled for
another processor. Everything that does not depend on rounding must be the same there.
"""

import argparse
import contextlib
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from benchmarks.odd_contexts import random_context
from benchmarks.recovery import Machine
from glcb._api.guardrails import ArmPause, Guardrail, Metric
from glcb._api.requests import (
    Activation,
    Catalog,
    CatalogChanges,
    Creation,
    DecisionRequest,
    ExperimentChanges,
    ExperimentSettings,
    NewArm,
    RankingRequest,
    RewardItem,
)
from glcb._errors import GlcbError
from glcb.service.core import models
from glcb.service.core.experiment import Experiment, encode_request
from glcb.service.core.models import ExperimentSnapshot
from glcb.service.events import Event
from glcb.service.process.metrics import Activity
from glcb.service.views import stats
from glcb.service.views.responses import experiment_info

ARMS = "abcdef"
POLICIES = ("linucb", "lints", "ucb1", "glcb")
SCHEMAS: tuple[dict[str, Any], ...] = ({}, {"age": "number"}, {"age": "category"}, {"country": ["c1", "c2"]})


class Walk:
    """One experiment and its random requests.

    Parameters
    ----------
    seed
        The seed of the requests.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._contexts = np.random.default_rng(seed)
        self._now = 1e9
        self._ids = ["x-1"]
        self._model: bytes | None = None
        self._has_features = self._random.random() < 0.35
        self._experiment, first = self._create()
        settings = self._experiment.state.settings
        self._low, self._high = (0.0, 1.0) if settings.rewards == "binary" else settings.rewards
        self._events = [first]
        self._snapshots: dict[int, str] = {}
        self._looked = 0
        self.refused = 0

    def __getstate__(self) -> dict[str, Any]:
        """Return what a kill leaves: the events, and the expected findings after them."""
        state = {**vars(self), "_snapshots": {}, "_looked": 0}
        return state | {"_experiment": self._experiment.snapshot().digest(learned=False)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._experiment = _first_state(self._events[0])
        for event in self._events[1:]:
            self._experiment.recover(event)
        found = self._experiment.snapshot().digest(learned=False)
        assert found == state["_experiment"], "the state after a restart differs"

    @property
    def _requests(self) -> list[tuple[float, Callable[[], tuple[str, Any]]]]:
        return [
            (0.34, self._decide),
            (0.44, self._rank),
            (0.72, self._reward),
            (0.77, self._activate),
            (0.81, lambda: ("settle", b"")),
            (0.90, self._change),
            (0.92, self._pause),
            (0.98, self._change_arms),
            (1.00, self._replace_model),
        ]

    @property
    def events(self) -> int:
        """Number of events."""
        return len(self._events)

    def run(self, requests: int) -> None:
        """Send requests, then replay all events since the start."""
        for _ in range(requests):
            if self._random.random() < 0.7:
                self._now += self._random.choice([0, 0, 0.1, 1, 3, 6, 30, -2])
            self._send(*self._next())
            self._check_counts()
            if self._random.random() < 0.06:
                self._restore()
        self._replay()

    # ---- requests -------------------------------------------------------------------------------

    def _create(self) -> tuple[Experiment, Event]:
        """Create an experiment; incompatible settings are drawn again."""
        while True:
            creation = Creation(name="walk", salt="salt", id_prefix="p-", settings=self._settings())
            with suppress(GlcbError):
                return Experiment.create(creation, self._now)

    def _settings(self) -> ExperimentSettings:
        choice = self._random.choice
        arms: Any = list("abc")
        if self._has_features:
            arms = {name: self._features() for name in "abc"}
        return msgspec.convert(
            {
                "arms": arms,
                "policy": choice(POLICIES),
                "max_pending": choice([1, 2, 5, 20]),
                "reward_timeout": choice([None, 0.5, 5.0, 20.0]),
                "default_reward": choice([None, 0.0, 1.0]),
                "reward_aggregation": choice(["first", "last", "max", "sum"]),
                "half_life": choice([None, None, 1, 10]),
                "slots": choice([1, 1, 2, 3]),
                "holdout": choice([0, 0.05, 0.5, 1]),
                "exploration": choice([0.1, 0, 0.5]),
                "rewards": choice(["binary", "binary", (0.0, 10.0), (-1.0, 1.0)]),
                "metrics": {"revenue": Metric(range=(0.0, 5.0), default=choice([None, 0.0]))},
                **({} if self._has_features else choice([{}, {"control": "a", "shares": {"b": (0.1, 0.6)}}])),
            },
            ExperimentSettings,
        )

    def _next(self) -> tuple[str, Any]:
        """Return the next request; an experiment that does not run is soon resumed."""
        share = self._random.random()
        if self._experiment.state.status != "running" and share < 0.3:
            return "change", ExperimentChanges(state="running")
        return next(make for limit, make in self._requests if share <= limit)()

    def _features(self) -> dict[str, Any]:
        choice = self._random.choice
        return {choice("pqr"): choice([1, 2.5, "z", True, None]) for _ in range(choice([0, 1, 2]))}

    def _context(self) -> dict[str, Any]:
        context = random_context(self._contexts)
        try:
            return json.loads(json.dumps(context, allow_nan=False))  # type: ignore[no-any-return]
        except ValueError:  # a request cannot have NaN
            return {"age": 31}

    def _id(self) -> str:
        return self._random.choice(self._ids[-6:])

    def _choice(self) -> dict[str, Any]:
        """Return the fields common to decisions and rankings."""
        choice = self._random.choice
        own = self._has_features and self._random.random() < 0.4
        return {
            "context": self._context(),
            "eligible": None if own else choice([*[None] * 9, ["a", "b"], ["a", "zz"], []]),
            "arms": {choice(ARMS): self._features() for _ in range(3)} if own else None,
            "id": choice([*[None] * 8, choice("uvwxyz"), self._id()]),
            "idempotency_key": choice([*[None] * 40, *"KLMN"]),
            "deferred": self._random.random() < 0.15,
            "control": choice([*[None] * 9, "a", "b", "zz"]),
            "unit": choice([None, None, "u1", "u2", "u3"]),
        }

    def _decide(self) -> tuple[str, Any]:
        return "decide", DecisionRequest(**self._choice())

    def _rank(self) -> tuple[str, Any]:
        k = self._random.choice([1, 2, 2, 3, 4])
        names = self._random.choice([None, None, list("tuvw")[:k], ["t", "t"]])
        return "rank", RankingRequest(**self._choice(), k=k, slot_names=names)

    def _reward(self) -> tuple[str, Any]:
        choice = self._random.choice
        return "reward", RewardItem(
            id=self._id(),
            value=choice([*[self._low, self._high] * 6, self._high + 1]),
            idempotency_key=choice([*[None] * 8, "r1", "r2"]),
            slot=choice([*[None] * 12, 0, 1, "t", 7]),
            examined=choice([*[None] * 12, 0, 1, 2, 9]),
            metrics=choice(
                [*[None, {"revenue": 2.0}, {"revenue": 0.0}] * 6, {"revenue": 9.0}, {"other": 1.0}]
            ),
        )

    def _activate(self) -> tuple[str, Any]:
        return "activate", Activation(id=self._id())

    def _change(self) -> tuple[str, Any]:
        choice = self._random.choice
        limits = [Guardrail(metric=choice(["revenue", "reward"]), max_fall=0.0, against="random")]
        settings: dict[str, Any] = choice(
            [
                {"holdout": choice([0.0, 0.3])},
                {"exploration": choice([0.0, 0.5, 2.0]), "schema": choice(SCHEMAS)},
                {"state": choice(["running", "running", "running", "paused", "archived"])},
                {"reward_timeout": choice([1.0, 10.0]), "default_reward": choice([None, 0.0])},
                {"reward_aggregation": choice(["first", "sum"]), "half_life": choice([None, 5])},
                {"shares": choice([None, {"a": (0.2, 0.9)}, {"a": (0.9, 1.0), "b": (0.9, 1.0)}])},
                {"control": choice([None, "a", "b", "zz"]), "baseline": choice(["random", "control"])},
                {"traffic": choice([0.0, 0.25, 1.0]), "shadow": choice([None, True, False])},
                {"guardrails": choice([None, limits]), "reason": "a test"},
                {"segments": choice([None, [], ["country"], ["country", "age"]]), "description": "text"},
            ]
        )
        return "change", ExperimentChanges(**settings)

    def _pause(self) -> tuple[str, Any]:
        return "change_arm", ArmPause(name=self._random.choice(ARMS), paused=self._random.random() < 0.5)

    def _change_arms(self) -> tuple[str, Any]:
        choice = self._random.choice
        some: dict[str, dict[str, Any] | None] = {choice(ARMS): self._features() for _ in range(2)}
        requests: list[tuple[str, Any]] = [
            ("add_arm", NewArm(name=choice(ARMS), like=choice([None, "a", "q"]))),
            ("add_arm", NewArm(name=choice(ARMS), features=choice([None, self._features()]))),
            ("remove_arm", NewArm(name=choice(ARMS))),
            ("set_arms", Catalog(arms=some)),
            ("change_arms", CatalogChanges(arms=some, remove=choice([[], ["a"], ["zz"], ["a", "a"]]))),
        ]
        return choice(requests)

    def _replace_model(self) -> tuple[str, Any]:
        model, self._model = self._model, models.model_file(self._experiment.bandit._snapshot())
        return ("settle", b"") if model is None else ("replace_model", model)

    # ---- checks ---------------------------------------------------------------------------------

    def _send(self, kind: str, request: Any) -> None:
        experiment = self._experiment
        before = _digest(experiment) if self._random.random() < 0.2 else None
        payload = encode_request(request)
        author = None if kind in ("decide", "rank", "reward", "activate", "settle") else "team"
        try:
            event, answer = experiment.apply(kind, request, self._now, payload, author)
        except GlcbError:
            self.refused += 1
            event, answer = None, b""
        if event is None:
            assert before in (None, _digest(experiment)), (
                f"a request without an event changed something: {kind}"
            )
            return
        self._events.append(event)
        if kind in ("decide", "rank"):
            assert isinstance(answer, bytes)
            self._ids.append(msgspec.json.decode(answer)["id"])
        self._look()

    def _look(self) -> None:
        """Apply the breaches of guardrails, as the engine does."""
        while True:
            self._looked, breach = self._experiment.find_breach(self._looked)
            if breach is None:
                return
            event, _ = self._experiment.apply("breach", breach, self._now, author="guardrail")
            assert event is not None
            self._events.append(event)

    def _check_counts(self) -> None:
        counts = self._experiment.bandit.counts
        ended = ("rewarded", "timed_out", "evicted", "removed", "pending")
        assert counts["decisions"] == sum(counts[name] for name in ended), counts
        assert min(counts.values()) >= 0, counts

    def _restore(self) -> None:
        """Read the experiment, and restore it from a snapshot, as after a restart."""
        experiment = self._experiment
        snapshot = experiment.snapshot()
        msgspec.json.encode((experiment_info(experiment), stats.stats(experiment, Activity())))
        assert _digest(experiment) == snapshot.digest(), "a read changed something"
        restored = Experiment.from_snapshot(ExperimentSnapshot.unpack(snapshot.pack(), snapshot.digest()))
        assert _digest(restored) == snapshot.digest(), "the restored state differs"
        self._snapshots[snapshot.sequence] = snapshot.digest()
        if self._random.random() < 0.5:
            self._experiment, self._looked = restored, 0

    def _replay(self) -> None:
        """Apply all events to a new experiment; compare its state with every snapshot."""
        first, *others = self._events
        replayed = _first_state(first)
        for event in others:
            replayed.recover(event)
            expected = self._snapshots.get(event.sequence)
            assert expected in (None, _digest(replayed)), f"the replay differs at event {event.sequence}"
        assert _digest(replayed) == _digest(self._experiment), "the replay differs at the end"


def _first_state(event: Event) -> Experiment:
    creation = msgspec.json.decode(event.request, type=Creation)
    return Experiment.create(creation, event.at)[0]


def _digest(experiment: Experiment) -> str:
    return experiment.snapshot().digest()


def _run_on_processors(arguments: argparse.Namespace) -> None:
    """Run a part of every walk on each processor, in a separate process."""
    with tempfile.TemporaryDirectory(prefix="glcb-walks-") as name:
        folder = Path(name)
        requests = arguments.requests // len(arguments.processors)
        flags = [f"--walks={arguments.walks}", f"--seed={arguments.seed}", f"--requests={requests}"]
        for processor in arguments.processors:
            machine = Machine(sys.executable, processor)
            command = [sys.executable, "-m", "benchmarks.walks", "--resume", str(folder / "walks"), *flags]
            kernels = {"NUMBA_CACHE_DIR": str(folder / f"kernels-{processor}")}
            subprocess.run(command, check=True, env={**os.environ, **machine.environment(), **kernels})
            print(f"{processor}: {arguments.walks:,} walks", file=sys.stderr, flush=True)
        with (folder / "walks").open("rb") as file:
            walks = [pickle.load(file) for _ in range(arguments.walks)]
    events, refused = sum(walk.events for walk in walks), sum(walk.refused for walk in walks)
    restarts = " → ".join([*arguments.processors, "host"])
    print(
        f"{arguments.walks:,} walks on {restarts}: {events:,} events recovered, {refused:,} requests rejected"
    )


def _resume(path: Path, arguments: argparse.Namespace) -> None:
    """Continue the walks of a file, or begin them, and write them to the file."""
    continued = path.with_suffix(".new")
    with contextlib.ExitStack() as stack:
        before = stack.enter_context(path.open("rb")) if path.exists() else None
        after = stack.enter_context(continued.open("wb"))
        for seed in range(arguments.seed, arguments.seed + arguments.walks):
            try:
                walk = Walk(seed) if before is None else pickle.load(before)
                walk.run(arguments.requests)
            except Exception as error:
                error.add_note(f"seed {seed}")
                raise
            pickle.dump(walk, after)
    continued.replace(path)


def main() -> None:
    """Run the walks named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--walks", type=int, default=3000)
    parser.add_argument("--requests", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--processors", nargs="+", help='names in LLVM, or "host": restart every walk on each'
    )
    parser.add_argument("--resume", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.resume is not None:
        _resume(arguments.resume, arguments)
        return
    if arguments.processors:
        _run_on_processors(arguments)
        return
    events = refused = 0
    for seed in range(arguments.seed, arguments.seed + arguments.walks):
        try:
            walk = Walk(seed)
            walk.run(arguments.requests)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
        events, refused = events + walk.events, refused + walk.refused
        if (seed + 1) % 100 == 0:
            print(f"{seed + 1 - arguments.seed:,} walks, {events:,} events, {refused:,} rejected requests")
    print(f"{arguments.walks:,} walks: {events:,} events replayed exactly, {refused:,} requests rejected")


if __name__ == "__main__":
    main()
