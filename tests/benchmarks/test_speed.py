"""The benchmark in a very small form: it runs, and its yardsticks measure what they say."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from benchmarks import floor, growth, laws, promises, rivals, speed, table
from benchmarks.bandits import Shape, full_bandit
from benchmarks.clock import Effort, Seconds, side_by_side
from glcb import InvalidSettings, LinUCB
from glcb._types import Float64, Int64

BRIEF = Effort(rounds=2, burst=0.001)
SMALL = Shape("binary", 3, 2)


def test_the_table_has_a_row_for_everyone_on_every_shape(tmp_path: Path) -> None:
    plan = speed.Plan(out=tmp_path, shapes=(SMALL, Shape("tree", 3, 2)), table_effort=BRIEF)
    speed.run(["table"], plan, Console(quiet=True))
    rows = json.loads((tmp_path / "speed.json").read_text())
    everyone = {"glcb", "glcb-paper", *(rival.name for rival in rivals.installed())}
    for kind in ("binary", "tree"):
        here = {row["policy"]: row for row in rows if row["kind"] == kind}
        assert set(here) == everyone
        for row in here.values():
            assert 0 < row["decide_us"] <= row["decide_p99_us"]
            assert 0 < row["learn_us"] <= row["learn_p99_us"]
        for policy in table.BANDITS:
            assert here[policy]["ratio"] == pytest.approx(
                here[policy]["decide_us"] / here[policy]["floor_us"]
            )
            assert here[policy]["kernel_us"] > 0


def test_growth_is_measured_and_drawn(tmp_path: Path) -> None:
    ranges = growth.Range(steps=(500, 600), arms=(2, 3), features=(2, 3, 4), hyperplanes=(1, 2), main=SMALL)
    plan = speed.Plan(out=tmp_path, ranges=ranges, growth_effort=BRIEF, memory_marks=(1, 2))
    found = speed.run(["growth"], plan, Console(quiet=True))
    assert {promise.limit for promise in found} == {1.1}
    points = json.loads((tmp_path / "growth.json").read_text())["points"]
    assert len({(point["axis"], point["policy"]) for point in points}) == 7
    assert len(points) == 2 * (2 + 2 + 3) + 2
    assert (tmp_path / "growth.png").stat().st_size > 10_000


def test_an_unknown_part_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="no part is called tables; the parts are table, growth"):
        speed.run(["tables"], speed.Plan(out=tmp_path / "new"), Console(quiet=True))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("policy", table.BANDITS)
@pytest.mark.parametrize("kind", ["binary", "tree"])
def test_a_full_bandit_has_visited_every_cell_and_sees_what_there_is_again(policy: str, kind: str) -> None:
    shape = Shape("tree" if kind == "tree" else "binary", 3, 2)
    bandit = full_bandit(policy, shape, np.random.default_rng(0))
    assert bandit._bank.cells == (1 << bandit._gates.hyperplanes).sum()
    bandit.decide([0.5] * 3)
    seen = bandit._gates.signature(np.full(3, 0.5, np.float32))
    np.testing.assert_array_equal(bandit._sight.signature, seen)


def test_the_bytes_of_a_decision_by_hand() -> None:
    needed = floor.reading(full_bandit("glcb-paper", SMALL, np.random.default_rng(0), layers=(4, 1)))
    # Two networks of four units with three inputs and a bias, and one unit with four inputs and a bias.
    assert needed.weights == 4 * 2 * (4 * 4 + 5)
    # Five units of eight hyperplanes, each three numbers and a threshold.
    assert needed.hyperplanes == 4 * 5 * 8 * (3 + 1)
    assert needed.bank >= 256 * needed.weights


@pytest.mark.parametrize("size", [1 << 16, 1 << 20, 8 << 20])
def test_the_floor_is_the_time_to_read_what_one_decision_must_read(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = 0.0

    def read(memory: Int64, picked: Int64) -> None:
        nonlocal clock
        clock += memory[picked].nbytes  # a second for every byte

    monkeypatch.setattr(floor, "_read", read)
    monkeypatch.setattr(floor, "time", SimpleNamespace(perf_counter=lambda: clock))
    needed = floor.Reading(weights=size - 4096, hyperplanes=4096, cell=1 << 12, bank=1 << 23)
    assert floor.floor_step(needed, np.random.default_rng(0))(np.empty(0)) == {"floor": size}


def test_all_that_is_picked_is_read() -> None:
    memory, picked = np.arange(80).reshape(10, 8), np.array([3, 3, 9])
    assert floor._read(memory, picked) == memory[picked].sum()


def test_everyone_has_a_turn_in_every_round() -> None:
    turns = []

    def one(x: Float64) -> Seconds:
        turns.append(x.size)
        return {"call": 2e-6}

    times = side_by_side(
        {"a": one, "b": one}, {"a": 1, "b": 2}, Effort(rounds=3, burst=0.0), np.random.default_rng(0)
    )
    assert turns == [1, 1, 2, 2] * 3
    assert times["a"]["call"].calls == 3
    assert times["a"]["call"].median == pytest.approx(2.0)


@pytest.mark.parametrize("rival", rivals.installed(), ids=lambda rival: rival.name)
def test_a_rival_learns_which_arm_pays(rival: type[rivals.Rival]) -> None:
    rng = np.random.default_rng(0)
    player = rival(3, 4)
    chosen = []
    for _ in range(400):
        x = rng.random(4)
        arm = player.decide(x)
        assert arm in range(3)
        player.learn(x, arm, float(arm == 1))
        chosen.append(arm)
    assert np.mean(np.array(chosen[200:]) == 1) > 0.8


def test_our_numpy_linucb_scores_as_the_policy_does() -> None:
    rng = np.random.default_rng(0)
    ours, policy = rivals.NumpyLinUCB(3, 4), LinUCB(3, 4, alpha=rivals.ALPHA)
    for _ in range(100):
        x = rng.random(4).astype(np.float32).astype(np.float64)
        assert ours.scores(x) == pytest.approx(policy.decide(x).scores, abs=1e-9)
        arm, reward = int(rng.integers(3)), int(rng.integers(2))
        ours.learn(x, arm, reward)
        policy.learn(x, arm, reward)


def test_a_law_finds_the_line_it_came_from() -> None:
    points: list[growth.Point] = [
        {"axis": "arms", "policy": policy, "at": at, "decide_us": 500.0 - 2 * at, "learn_us": 1.0}
        for policy in table.BANDITS
        for at in (2, 10, 100)
    ]
    panel = next(panel for panel in laws.PANELS if panel.axis == "arms")
    for law in laws.laws(points, panel):
        assert law.factors == pytest.approx([500, -2])
        assert law.off == pytest.approx(0, abs=1e-9)
        assert str(law) == "500 − 2·arms"


def test_promises_are_kept_up_to_their_limit() -> None:
    assert promises.Promise("", 1.1, 1.1).kept
    assert not promises.Promise("", 1.2, 1.1).kept


def test_promises_compare_the_right_rows() -> None:
    def row(policy: str, decide: float, ratio: float | None) -> dict[str, Any]:
        return {
            **dict.fromkeys(table.Row.__annotations__),
            "kind": "binary",
            "features": 94,
            "arms": 14,
            "policy": policy,
            "decide_us": decide,
            "learn_us": 0.0,
            "ratio": ratio,
        }

    rows: Any = [row("glcb", 30, 9.0), row("glcb-paper", 60, 1.7), row("numpy-linucb", 20, None)]
    found = {promise.what: (promise.measured, promise.limit) for promise in promises.of_table(rows)}
    assert found == {
        "(94, 14): decide of glcb-paper ÷ floor": (1.7, 1.8),
        "(94, 14): decide of glcb ÷ glcb-paper's": (0.5, 1.0),
        "(94, 14): decide + learn of glcb-paper ÷ numpy-linucb's": (3.0, 1.5),
        "(94, 14): decide + learn of glcb ÷ numpy-linucb's": (1.5, 1.2),
    }
