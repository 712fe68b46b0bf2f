"""GLCB: memory, kernels and files."""

import copy
import gc
import os
import signal
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import GLCB, InvalidSettings
from glcb._numba.compile import kernel
from glcb.bench import simulate
from glcb.explore import VisitCounts
from glcb.policies.glcb.paper import GLCBPaper
from glcb.tasks import Wheel


def test_sizes_that_need_too_much_memory_are_refused_before_allocation() -> None:
    with pytest.raises(InvalidSettings, match="GiB"):
        GLCB(100_000, 100_000)
    with pytest.raises(InvalidSettings, match="GiB"):
        GLCB(2, 10, layers=(100_000,), hyperplanes=16)


def test_an_arm_that_cannot_be_added_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = GLCB(2, 3)
    policy.learn([0.5] * 3, 0, 1)
    before = policy.decide([0.5] * 3).values
    with monkeypatch.context() as patched:
        patched.setattr("glcb._validation.MAX_BYTES", 1000)
        with pytest.raises(InvalidSettings, match="GiB"):
            policy.add_arm(2)

    def out_of_memory(counts: VisitCounts, sources: np.ndarray) -> None:
        raise MemoryError

    monkeypatch.setattr(VisitCounts, "reorder", out_of_memory)
    with pytest.raises(MemoryError):
        policy.add_arm(2)
    assert policy.arms == (0, 1)
    np.testing.assert_array_equal(policy.decide([0.5] * 3).values, before)


def test_running_out_of_memory_for_counts_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, twin = GLCB(2, 3), GLCB(2, 3)
    rng = np.random.default_rng(0)

    def out_of_memory(counts: VisitCounts) -> int:
        raise MemoryError

    refused = 0
    for x in rng.random((60, 3)):
        if rng.random() < 0.5:
            with monkeypatch.context() as patch:
                patch.setattr(VisitCounts, "ensure_capacity", out_of_memory)
                try:
                    policy.learn(x, 0, 1)
                    twin.learn(x, 0, 1)
                except MemoryError:
                    refused += 1
        policy.learn(x, 1, 0)
        twin.learn(x, 1, 0)
        np.testing.assert_array_equal(policy.decide(x).scores, twin.decide(x).scores)
    assert refused > 0
    for name, array in twin._snapshot().items():
        np.testing.assert_array_equal(policy._snapshot()[name], array)


def test_a_step_allocates_nothing_after_ensure_capacity() -> None:
    policy = GLCB(2, 3)
    for x in np.random.default_rng(0).random((50, 3)):
        policy.ensure_capacity()
        table, weights = policy._counts.arrays.table, policy._bank.arrays.weights
        policy.count_decision(x, 0)
        assert policy._counts.arrays.table is table
        assert policy._bank.arrays.weights is weights
        assert policy._counts.arrays.used[0] <= len(table)
        policy.learn(x, 0, 1, counted=True)
        assert policy._bank.arrays.used[0] <= policy._bank.arrays.weights.size


def test_adding_an_arm_frees_the_old_weights() -> None:
    policy = GLCB(arms=["a", "b"], features=3)
    policy.learn([0.1, 0.2, 0.3], "a", 1)
    before = weakref.ref(policy._bank.arrays.weights)
    gc.disable()
    try:
        policy.add_arm("c")
        assert before() is None, "without waiting for the garbage collector, which ignores the size of arrays"
    finally:
        gc.enable()


def test_each_kernel_is_compiled_once_for_all_inputs() -> None:
    from glcb import _validation
    from glcb.explore import scoring
    from glcb.policies.glcb import kernels

    for rewards in ("binary", (0, 1)):
        policy = GLCB(3, 4, rewards=rewards, learning_rate=1, bias=1, bonus_scale=0)
        for x in (
            [0, 1, 0, 1],
            np.full(4, 0.5, np.float16),
            np.ones((4, 2), np.float64)[:, 0],
            (True, 0, 0, 1),
            np.frombuffer(np.full(4, 0.25).tobytes()),
        ):
            for eligible in (None, [2, 0]):
                decision = policy.decide(x, eligible=eligible)
            policy.learn(x, decision.arm, True)
            policy.count_decision(x, decision.arm)
            policy.learn(x, decision.arm, 1, counted=True)
        policy.decide_many(np.random.default_rng(0).random((600, 4)))
        policy.learn_many(np.zeros((2, 4)), [0, 1], [0, 1])
        policy.add_arm(3)
        policy.learn([0] * 4, 3, 1)
        policy = copy.deepcopy(policy)
        policy.learn([0] * 4, policy.decide([0] * 4).arm, 1)
    entries: tuple[Any, ...] = (
        _validation._clip_to_unit_interval,
        scoring._best,
        kernels.load_context,
        kernels.estimate,
        kernels.estimate_many,
        kernels.count_decision,
        kernels.network_value,
        kernels.learn_reward,
        kernels.learn_fourier,
    )
    for entry in entries:
        assert len(entry.signatures) == 1, entry


def test_kernels_detect_nan_and_infinity() -> None:
    @kernel
    def is_invalid(x: np.ndarray) -> bool:
        return not (x[0] <= 1) or np.isinf(x[1])

    assert is_invalid(np.array([np.nan, 0]))
    assert is_invalid(np.array([0, np.inf]))
    assert not is_invalid(np.array([0.0, 0.0]))


def test_kernels_work_without_a_writable_cache() -> None:
    program = """
import numba.core.caching as caching
caching.CacheImpl._locator_classes = []
from glcb import _validation
assert _validation.context([0.5, 1.0], 2).tolist() == [0.5, 1.0]
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_process_killed_while_saving_leaves_a_complete_file(tmp_path: Path) -> None:
    path = tmp_path / "model"
    program = f"""
from glcb import GLCB
policy = GLCB(4, 50)
for i in range(20):
    policy.learn([i / 20] * 50, i % 4, i % 2)
policy.save({str(path)!r})
print("ready", flush=True)
while True:
    policy.save({str(path)!r})
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


def test_switching_is_necessary_on_the_wheel() -> None:
    """The paper reports 4308. The last unit alone stays far below for every seed."""
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
