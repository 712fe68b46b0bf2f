"""What is special about GLCB."""

import copy
import gc
import os
import signal
import subprocess
import sys
import weakref
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import GLCB, InvalidSettings
from glcb._numba.compile import kernel
from glcb.bench import simulate
from glcb.explore import Counts
from glcb.policies.glcb.paper import GLCBPaper
from glcb.policies.glcb.settings import (
    DEFAULT_BINARY,
    DEFAULT_BOUNDED,
    PAPER_BINARY,
    PAPER_BOUNDED,
    SettingChanges,
    Settings,
)
from glcb.tasks import Wheel


def test_it_starts_with_the_settings_for_its_kind_of_reward() -> None:
    assert GLCB(3, 4).settings == DEFAULT_BINARY
    assert GLCB(3, 4, rewards=(0, 1)).settings == DEFAULT_BOUNDED
    assert GLCB(3, 4, hyperplanes=2, bias=1).settings == replace(DEFAULT_BINARY, hyperplanes=2, bias=1.0)
    assert GLCBPaper(3, 4).settings == PAPER_BINARY
    assert GLCBPaper(3, 4, rewards=(0, 1)).settings == PAPER_BOUNDED
    assert GLCBPaper(3, 4, bias=2).settings == replace(PAPER_BINARY, bias=2.0)


def test_settings_are_frozen_and_their_changes_have_the_same_names() -> None:
    with pytest.raises(FrozenInstanceError):
        PAPER_BINARY.hyperplanes = 3  # type: ignore[misc]
    assert list(SettingChanges.__annotations__) == [field.name for field in fields(Settings)]


@pytest.mark.parametrize(
    "change",
    [
        {"layers": ()},
        {"layers": "100"},
        {"layers": (100, 0, 1)},
        {"layers": (10**9,)},
        {"hyperplanes": 0},
        {"hyperplanes": 17},
        {"hyperplanes": ()},
        {"hyperplanes": (2, 0)},
        {"hyperplanes": 2.5},
        {"step": "fast"},
        {"rate_factors": 1.0},
        {"rate_factors": (1.0, -1.0)},
        {"ridges": (0.0,)},
        {"damping": -1},
        {"start": "end"},
        {"bonus_unit": "money"},
        {"leaf_values": "median"},
        {"learning_rate": -0.1},
        {"learning_rate": float("nan")},
        {"bonus_scale": float("inf")},
        {"switching_rate": "fast"},
        {"clip": 0.5},
        {"clip": 0.0},
        {"tree_depth": 11},
        {"output": "first"},
        {"weight_box": 0},
        {"hyperplane": 3},
    ],
    ids=str,
)
def test_nonsense_settings_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidSettings, match=next(iter(change))):
        GLCB(2, 3, **change)  # type: ignore[arg-type]


def test_absurd_sizes_are_refused_before_anything_is_allocated() -> None:
    with pytest.raises(InvalidSettings, match="GiB"):
        GLCB(100_000, 100_000)
    with pytest.raises(InvalidSettings, match="GiB"):
        GLCB(2, 10, layers=(100_000,), hyperplanes=16)


def test_arms_are_added_within_the_same_limits_and_all_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    bandit = GLCB(2, 3)
    bandit.learn([0.5] * 3, 0, 1)
    before = bandit.decide([0.5] * 3).values
    with monkeypatch.context() as patched:
        patched.setattr("glcb._validation.MOST_BYTES", 1000)
        with pytest.raises(InvalidSettings, match="GiB"):
            bandit.add_arm(2)

    def no_memory(counts: Counts, sources: np.ndarray) -> None:
        raise MemoryError

    monkeypatch.setattr(Counts, "rearrange", no_memory)
    with pytest.raises(MemoryError):
        bandit.add_arm(2)
    assert bandit.arms == (0, 1)
    np.testing.assert_array_equal(bandit.decide([0.5] * 3).values, before)


def test_memory_that_runs_out_for_counts_leaves_the_bandit_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    bandit, twin = GLCB(2, 3), GLCB(2, 3)
    rng = np.random.default_rng(0)

    def no_memory(counts: Counts) -> int:
        raise MemoryError

    refused = 0
    for x in rng.random((60, 3)):
        if rng.random() < 0.5:
            with monkeypatch.context() as patch:
                patch.setattr(Counts, "ensure_capacity", no_memory)
                try:
                    bandit.learn(x, 0, 1)
                    twin.learn(x, 0, 1)
                except MemoryError:
                    refused += 1
        bandit.learn(x, 1, 0)
        twin.learn(x, 1, 0)
        np.testing.assert_array_equal(bandit.decide(x).scores, twin.decide(x).scores)
    assert refused > 0
    for name, array in twin._state().items():
        np.testing.assert_array_equal(bandit._state()[name], array)


def test_once_there_is_room_a_play_needs_no_memory() -> None:
    bandit = GLCB(2, 3)
    for x in np.random.default_rng(0).random((50, 3)):
        bandit.ensure_capacity()
        table, weights = bandit._counts.tries.table, bandit._bank.memory.weights
        bandit.count_decision(x, 0)
        assert bandit._counts.tries.table is table
        assert bandit._bank.memory.weights is weights
        assert bandit._counts.tries.used[0] <= len(table)
        bandit.learn(x, 0, 1, counted=True)
        assert bandit._bank.memory.used[0] <= bandit._bank.memory.weights.size


def test_a_new_arm_lets_the_old_weights_go() -> None:
    bandit = GLCB(arms=["a", "b"], features=3)
    bandit.learn([0.1, 0.2, 0.3], "a", 1)
    before = weakref.ref(bandit._bank.memory.weights)
    gc.disable()
    try:
        bandit.add_arm("c")
        assert before() is None, "at once, for the garbage collector does not know how large they are"
    finally:
        gc.enable()


def test_each_kernel_is_compiled_once_whatever_comes() -> None:
    from glcb import _validation
    from glcb.explore import choice
    from glcb.policies.glcb import kernels as glcb_kernels

    for rewards in ("binary", (0, 1)):
        bandit = GLCB(3, 4, rewards=rewards, learning_rate=1, bias=1, bonus_scale=0)
        for x in (
            [0, 1, 0, 1],
            np.full(4, 0.5, np.float16),
            np.ones((4, 2), np.float64)[:, 0],
            (True, 0, 0, 1),
            np.frombuffer(np.full(4, 0.25).tobytes()),
        ):
            for eligible in (None, [2, 0]):
                decision = bandit.decide(x, eligible=eligible)
            bandit.learn(x, decision.arm, True)
            bandit.count_decision(x, decision.arm)
            bandit.learn(x, decision.arm, 1, counted=True)
        bandit.decide_many(np.random.default_rng(0).random((600, 4)))
        bandit.learn_many(np.zeros((2, 4)), [0, 1], [0, 1])
        bandit.add_arm(3)
        bandit.learn([0] * 4, 3, 1)
        bandit = copy.deepcopy(bandit)
        bandit.learn([0] * 4, bandit.decide([0] * 4).arm, 1)
    entries: tuple[Any, ...] = (
        _validation._take_unit,
        choice._best,
        glcb_kernels.estimate,
        glcb_kernels.count_try,
        glcb_kernels.learn_reward,
    )
    for entry in entries:
        assert len(entry.signatures) == 1, entry


def test_kernels_still_see_nan() -> None:
    @kernel
    def is_bad(x: np.ndarray) -> bool:
        return not (x[0] <= 1) or np.isinf(x[1])

    assert is_bad(np.array([np.nan, 0]))
    assert is_bad(np.array([0, np.inf]))
    assert not is_bad(np.array([0.0, 0.0]))


def test_it_works_without_a_writable_cache() -> None:
    program = """
import numba.core.caching as caching
caching.CacheImpl._locator_classes = []
from glcb import _validation
assert _validation.context([0.5, 1.0], 2).tolist() == [0.5, 1.0]
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_crash_while_saving_leaves_a_whole_file(tmp_path: Path) -> None:
    """A process that saves in a loop is killed at random moments; what it left behind always loads."""
    path = tmp_path / "model"
    program = f"""
from glcb import GLCB
bandit = GLCB(4, 50)
for i in range(20):
    bandit.learn([i / 20] * 50, i % 4, i % 2)
bandit.save({str(path)!r})
print("ready", flush=True)
while True:
    bandit.save({str(path)!r})
"""
    rng = np.random.default_rng(0)
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            try:
                process.wait(timeout=rng.uniform(0.01, 0.1))
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
        assert GLCB.load(path).updates == 20


def test_switching_is_what_makes_the_wheel_turn() -> None:
    """Paper: 4308. The last unit alone stays far below, whatever the seed."""
    task = Wheel()

    def mean(output: str) -> float:
        return float(
            np.mean(
                [
                    simulate(
                        GLCBPaper(task.arms, 2, rewards=task.rewards, seed=seed, output=output),  # type: ignore[arg-type]
                        task.stream(seed),
                    ).total
                    for seed in range(4)
                ]
            )
        )

    assert mean("switching") > 3700
    assert mean("last") < 2500
