"""Scoring Ray datasets, and training several bandits in parallel."""

import copy
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest

from glcb import Bandit, InvalidInput, InvalidSettings, LogError, NotSupported, UnknownArm
from glcb._ray import connected
from tests.evaluate.logs import ARMS, rows, write

pytest.importorskip("ray")
pytest.importorskip("pandas")

from glcb.integrations import ray as glcb_ray

# Ray starts processes by forking, and other tests may have imported JAX, which warns of that.
pytestmark = [
    pytest.mark.live,
    pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*"),
]


@pytest.fixture(scope="module")
def connection() -> Iterator[None]:
    """Connect once: starting Ray takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_prestart_worker_first_driver", "0")  # these workers would not be used
        with connected("local", cores=2, object_store=100_000_000):
            from ray.data import DataContext

            DataContext.get_current().enable_progress_bars = False
            yield


@pytest.fixture(scope="module")
def bandit() -> Bandit:
    trained = Bandit(arms=ARMS, policy="linucb", exploration=0.3, shares={"games": (0.1, 1.0)})
    for row in rows(300):
        decision = trained.decide(row["context"])
        trained.reward(decision.id, float(decision.arm == "news"))
    return trained


CONTEXTS = [{"user": f"u{n}", "age": n / 300, "day": "mon" if n % 2 else None} for n in range(300)]


def by_user(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row.pop("user"): row for row in rows}


def score(bandit: Any, **arguments: Any) -> dict[str, dict[str, Any]]:
    """Return the rows as two workers score them in seven blocks, by user."""
    import ray

    dataset = ray.data.from_items(CONTEXTS, override_num_blocks=7)
    return by_user(glcb_ray.score(dataset, bandit, ignore_columns=["day"], workers=2, **arguments).take_all())


def test_rows_are_scored_as_the_next_decision_on_any_number_of_workers(
    connection: None, bandit: Bandit, tmp_path: Path
) -> None:
    before = bandit.counts
    bandit.save(tmp_path / "model.glcb")
    scored = score(tmp_path / "model.glcb", key="user", seed=3)
    scorer = glcb_ray._Scorer(bandit, "user", 3, None, ["day"])
    assert by_user(scorer.add_columns(pyarrow.Table.from_pylist(CONTEXTS)).to_pylist()) == scored
    assert len(scored) == len(CONTEXTS)
    for row in CONTEXTS[::10]:
        (decision,) = copy.deepcopy(bandit).decide_many([{"age": row["age"]}])
        found = scored[str(row["user"])]
        assert dict(zip(bandit.arms, found["probabilities"], strict=True)) == decision.probabilities
        assert found["values"] == decision.values.tolist()
        assert found["propensity"] == decision.probabilities[found["arm"]]
    assert bandit.counts == before


def test_the_example_of_the_page_prints_what_it_shows(
    connection: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here and not with the others, because Ray is running and its own warnings are ignored."""
    page = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", page.split("\n## Ray\n")[1], re.MULTILINE)
    _, code, output = (textwrap.dedent(block).strip("\n") for block in blocks)
    exec(code, {})
    assert output in capsys.readouterr().out.splitlines()


def test_arms_are_drawn_with_their_probabilities_by_key_and_seed() -> None:
    shares = np.array([0.0, 0.2, 0.7, 0.1])
    drawn = [[glcb_ray._drawn(shares, seed, f"user {n}") for n in range(5000)] for seed in range(2)]
    assert drawn[0] == [glcb_ray._drawn(shares, 0, f"user {n}") for n in range(5000)]
    assert drawn[0] != drawn[1]
    for arm, share in enumerate(shares.tolist()):
        count = sum(own.count(arm) for own in drawn)
        assert abs(count - 10_000 * share) <= 4.5 * (10_000 * share * (1 - share)) ** 0.5


def test_without_keys_the_eligible_arm_with_the_largest_value_is_chosen(bandit: Bandit) -> None:
    scorer = glcb_ray._Scorer(bandit, None, 0, ["sports", "games"], ["user", "day"])
    for own in scorer.add_columns(pyarrow.Table.from_pylist(CONTEXTS)).to_pylist():
        values = dict(zip(bandit.arms, own["values"], strict=True))
        assert own["arm"] == max(("sports", "games"), key=values.__getitem__)
        assert own["propensity"] == 1.0


def test_what_cannot_be_scored_is_refused_before_anything_is_read(connection: None, bandit: Bandit) -> None:
    with pytest.raises(NotSupported, match="the policy 'lints' draws random numbers"):
        score(Bandit(arms=ARMS, policy="lints"))
    with pytest.raises(NotSupported, match=r"makes rankings.*: call Bandit\.rank"):
        score(Bandit(arms=ARMS, slots=2))
    with pytest.raises(NotSupported, match=r"both text and integers.*: use a bandit whose arms are all text"):
        score(Bandit(arms=["a", 1]))
    with pytest.raises(UnknownArm, match="weather"):
        score(bandit, eligible=["weather"])
    with pytest.raises(InvalidInput, match="no column 'visitor'; it has user, age, day"):
        score(bandit, key="visitor")
    import ray

    with pytest.raises(InvalidInput, match="has a column 'arm', which this adds"):
        glcb_ray.score(ray.data.from_items([{"age": 0.5, "arm": "news"}]), bandit)


@pytest.mark.parametrize("key", [None, float("nan")])
def test_a_row_without_a_key_is_refused(bandit: Bandit, key: float | None) -> None:
    scorer = glcb_ray._Scorer(bandit, "user", 0, None, [])
    with pytest.raises(InvalidInput, match="a row has no 'user': drop such rows"):
        scorer.add_columns(pyarrow.Table.from_pylist([{"user": 1.0, "age": 0.5}, {"user": key, "age": 0.5}]))


# ---- learning ---------------------------------------------------------------------------------------


def test_bandits_learn_from_several_logs_as_if_one_after_the_other(connection: None, tmp_path: Path) -> None:
    logs = [write(tmp_path / f"{seed}.jsonl", rows(200, seed)) for seed in range(2)]
    bandits = {
        "both": Bandit(arms=ARMS, policy="linucb", clock=lambda: 7.0),
        "first": Bandit(arms=ARMS, policy="linucb", half_life=100),
    }
    found = glcb_ray.learn_many(bandits, {"both": logs, "first": logs[0]})
    for name, own in (("both", logs), ("first", logs[:1])):
        expected = copy.deepcopy(bandits[name])
        reports = tuple(expected.learn_from(log) for log in own)
        assert found[name].reports == reports
        expected.save(tmp_path / "expected.glcb")
        found[name].bandit.save(tmp_path / "found.glcb")
        assert (tmp_path / "found.glcb").read_bytes() == (tmp_path / "expected.glcb").read_bytes()
        assert bandits[name].counts["decisions"] == 0
    assert found["both"].bandit.get_params()["clock"]() == 7.0


def test_logs_and_jobs_that_cannot_be_used_are_named(connection: None, tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"cannot read .*none\.jsonl: there is no such file"):
        glcb_ray.learn_many({"a": Bandit(arms=ARMS)}, tmp_path / "none.jsonl")
    with pytest.raises(InvalidInput, match="no logs for the bandit 'b'"):
        glcb_ray.learn_many({"b": Bandit(arms=ARMS)}, {"a": tmp_path / "none.jsonl"})
    (broken := tmp_path / "log.jsonl.gz").write_bytes(b"\x1f\x8b\x08 no more")
    with pytest.raises(LogError, match=r"log\.jsonl\.gz"):
        glcb_ray.learn_many({"a": Bandit(arms=ARMS)}, broken)
    with pytest.raises(InvalidSettings, match="jobs must be at least 1, got 0"):
        glcb_ray.learn_many({"a": Bandit(arms=ARMS)}, broken, jobs=0)
