"""Short runs of the speed benchmark, and checks of its measurements."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from benchmarks import floor, peers, scaling, speed, table, targets
from benchmarks.bandits import Shape, full_bandit
from benchmarks.timing import Effort, Seconds, side_by_side
from glcb import InvalidSettings, LinUCB
from glcb._arrays import Float64, Int64

BRIEF = Effort(rounds=2, burst=0.001)
SMALL = Shape("binary", 3, 2)


def test_the_table_has_a_row_for_every_policy_and_shape(tmp_path: Path) -> None:
    plan = speed.Plan(out=tmp_path, shapes=(SMALL, Shape("tree", 3, 2)), table_effort=BRIEF)
    speed.run(["table"], plan, Console(quiet=True))
    rows = json.loads((tmp_path / "speed.json").read_text())
    policies = {"glcb", "glcb-paper", *(peer.name for peer in peers.installed())}
    for kind in ("binary", "tree"):
        here = {row["policy"]: row for row in rows if row["kind"] == kind}
        assert set(here) == policies
        for row in here.values():
            assert 0 < row["decide_us"] <= row["decide_p99_us"]
            assert 0 < row["learn_us"] <= row["learn_p99_us"]
        for policy in table.BANDITS:
            assert here[policy]["ratio"] == pytest.approx(
                here[policy]["decide_us"] / here[policy]["floor_us"]
            )
            assert here[policy]["kernel_us"] > 0


def test_scaling_is_measured_and_drawn(tmp_path: Path) -> None:
    ranges = scaling.Range(steps=(500, 600), arms=(2, 3), features=(2, 3, 4), hyperplanes=(1, 2), main=SMALL)
    plan = speed.Plan(out=tmp_path, ranges=ranges, scaling_effort=BRIEF, memory_marks=(1, 2))
    measured = speed.run(["scaling"], plan, Console(quiet=True))
    assert {target.limit for target in measured} == {1.1}
    points = json.loads((tmp_path / "scaling.json").read_text())["points"]
    assert len({(point["axis"], point["policy"]) for point in points}) == 7
    assert len(points) == 2 * (2 + 2 + 3) + 2
    assert (tmp_path / "scaling.png").stat().st_size > 10_000


def test_an_unknown_part_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="unknown part tables; the parts are table, scaling"):
        speed.run(["tables"], speed.Plan(out=tmp_path / "new"), Console(quiet=True))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("policy", table.BANDITS)
@pytest.mark.parametrize("kind", ["binary", "tree"])
def test_a_full_bandit_has_every_cell_and_computes_signatures_again(policy: str, kind: str) -> None:
    shape = Shape("tree" if kind == "tree" else "binary", 3, 2)
    bandit = full_bandit(policy, shape, np.random.default_rng(0))
    assert bandit._bank.cells == (1 << bandit._gates.hyperplanes).sum()
    bandit.decide([0.5] * 3)
    expected = bandit._gates.signature(np.full(3, 0.5, np.float32))
    np.testing.assert_array_equal(bandit._arrays.arrays.context_cache.signature, expected)


def test_the_footprint_of_a_decision_matches_a_manual_count() -> None:
    needed = floor.footprint(full_bandit("glcb-paper", SMALL, np.random.default_rng(0), layers=(4, 1)))
    # Two networks: four units with three inputs and a bias, one unit with four inputs and a bias.
    assert needed.weights == 4 * 2 * (4 * 4 + 5)
    # Five units with eight hyperplanes of three numbers and a threshold.
    assert needed.hyperplanes == 4 * 5 * 8 * (3 + 1)
    assert needed.bank >= 256 * needed.weights


@pytest.mark.parametrize("size", [1 << 16, 1 << 20, 8 << 20])
def test_the_floor_is_the_time_to_read_one_footprint(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0

    def read(memory: Int64, picked: Int64) -> None:
        nonlocal clock
        clock += memory[picked].nbytes  # one second per byte

    monkeypatch.setattr(floor, "_read", read)
    monkeypatch.setattr(floor, "time", SimpleNamespace(perf_counter=lambda: clock))
    needed = floor.Footprint(weights=size - 4096, hyperplanes=4096, cell=1 << 12, bank=1 << 23)
    assert floor.floor_step(needed, np.random.default_rng(0))(np.empty(0)) == {"floor": size}


def test_all_selected_blocks_are_read() -> None:
    memory, picked = np.arange(80).reshape(10, 8), np.array([3, 3, 9])
    assert floor._read(memory, picked) == memory[picked].sum()


def test_every_candidate_runs_in_every_round() -> None:
    sizes = []

    def one(x: Float64) -> Seconds:
        sizes.append(x.size)
        return {"call": 2e-6}

    times = side_by_side(
        {"a": one, "b": one}, {"a": 1, "b": 2}, Effort(rounds=3, burst=0.0), np.random.default_rng(0)
    )
    assert sizes == [1, 1, 2, 2] * 3
    assert times["a"]["call"].calls == 3
    assert times["a"]["call"].median == pytest.approx(2.0)


@pytest.mark.parametrize("peer", peers.installed(), ids=lambda peer: peer.name)
def test_a_peer_learns_which_arm_is_best(peer: type[peers.Peer]) -> None:
    rng = np.random.default_rng(0)
    bandit = peer(3, 4)
    chosen = []
    for _ in range(400):
        x = rng.random(4)
        arm = bandit.decide(x)
        assert arm in range(3)
        bandit.learn(x, arm, float(arm == 1))
        chosen.append(arm)
    assert np.mean(np.array(chosen[200:]) == 1) > 0.8


def test_numpy_linucb_has_the_scores_of_the_linucb_policy() -> None:
    rng = np.random.default_rng(0)
    peer, policy = peers.NumpyLinUCB(3, 4), LinUCB(3, 4, alpha=peers.ALPHA)
    for _ in range(100):
        x = rng.random(4).astype(np.float32).astype(np.float64)
        assert peer.scores(x) == pytest.approx(policy.decide(x).scores, abs=1e-9)
        arm, reward = int(rng.integers(3)), int(rng.integers(2))
        peer.learn(x, arm, reward)
        policy.learn(x, arm, reward)


def test_a_fit_recovers_the_line_that_generated_the_points() -> None:
    points: list[scaling.Point] = [
        {"axis": "arms", "policy": policy, "at": at, "decide_us": 500.0 - 2 * at, "learn_us": 1.0}
        for policy in table.BANDITS
        for at in (2, 10, 100)
    ]
    panel = next(panel for panel in scaling.PANELS if panel.axis == "arms")
    for fit in scaling.fits(points, panel):
        assert fit.coefficients == pytest.approx([500, -2])
        assert fit.max_error == pytest.approx(0, abs=1e-9)
        assert str(fit) == "500 − 2·arms"


def test_a_target_is_met_up_to_its_limit() -> None:
    assert targets.Target("", 1.1, 1.1).met
    assert not targets.Target("", 1.2, 1.1).met


def test_targets_compare_the_right_rows() -> None:
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
    measured = {target.name: (target.measured, target.limit) for target in targets.table_targets(rows)}
    assert measured == {
        "(94, 14): glcb-paper decide ÷ floor": (1.7, 1.8),
        "(94, 14): glcb decide ÷ glcb-paper decide": (0.5, 1.0),
        "(94, 14): glcb-paper decide + learn ÷ numpy-linucb decide + learn": (3.0, 1.5),
        "(94, 14): glcb decide + learn ÷ numpy-linucb decide + learn": (1.5, 1.2),
    }
