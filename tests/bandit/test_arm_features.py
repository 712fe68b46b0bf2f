"""Arms with features: catalogs, candidates of a request, bad input, logs and files."""

import datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from glcb import Bandit, InvalidInput, InvalidSettings, UnknownArm
from glcb.bandit import catalog as catalog_module
from glcb.bandit import recorded

CATALOG: dict[Any, dict[str, Any]] = {
    "m17": {"genre": "noir", "price": 3.0, "topic": [0.1, 0.9]},
    "m4": {"genre": "comedy", "price": 1.0, "topic": [0.8, 0.2]},
    "m9": {"genre": "noir", "price": 2.0, "tags": ["new"]},
}
SMALL: dict[str, Any] = {"policy_settings": {"layers": (4, 1), "hyperplanes": 2, "experts": ["linear"]}}


def context(step: int) -> dict[str, Any]:
    return {"age": 20 + step % 7, "country": "FR" if step % 3 else "DE"}


def request(step: int) -> dict[str, Any]:
    return {f"x{step + i}": {"genre": "noir" if i % 2 else "drama", "price": float(i)} for i in range(4)}


def run(bandit: Bandit, steps: int, start: int = 0) -> list[Any]:
    """Decide, rank and reward; return everything that was decided."""
    decided: list[Any] = []
    for step in range(start, start + steps):
        if step % 3 == 0:
            decision = bandit.decide(context(step), arms=request(step) if step % 2 else None)
            decided.append((decision.arm, decision.propensity))
            bandit.reward(decision.id, step % 2)
        else:
            ranking = bandit.rank(context(step), k=2, arms=request(step) if step % 2 else None)
            decided.append((ranking.arms, ranking.propensities))
            bandit.reward(ranking.id, 1, slot=step % 2, examined=2 if step % 4 else None)
    return decided


def state(bandit: Bandit) -> tuple[Any, ...]:
    """Return everything that determines the future, without the random numbers."""
    snapshot = bandit._snapshot()
    about = {name: value for name, value in snapshot.about.items() if name != "policy"}
    return about, {name: array.tobytes() for name, array in snapshot.arrays.items()}


@pytest.mark.parametrize("policy", ["glcb", "linucb", "lints", "ucb1", "squarecb"])
def test_every_policy_has_a_shared_form(policy: str) -> None:
    bandit = Bandit(arms=CATALOG, policy=policy)
    for step in range(12):
        decision = bandit.decide(context(step))
        assert sum(decision.probabilities.values()) == pytest.approx(1)
        bandit.reward(decision.id, decision.arm == "m4")
    assert sum(bandit.reward_counts.values()) == 12


def test_a_new_arm_inherits_evidence_from_arms_like_it() -> None:
    bandit = Bandit(arms=CATALOG, exploration=0.0)
    for step in range(60):
        decision = bandit.decide(
            context(step), arms={f"a{step}": {"kind": "good"}, f"b{step}": {"kind": "bad"}}
        )
        bandit.reward(decision.id, str(decision.arm).startswith("a"))
    decision = bandit.decide(context(0), arms={"never seen": {"kind": "good"}, "nor this": {"kind": "bad"}})
    assert decision.arm == "never seen"
    assert decision.pseudocounts.min() > 0


def test_an_arm_loses_its_own_bonus_before_its_rewards_are_known() -> None:
    twins = {name: {"price": 1.0} for name in ("known", "new")}
    bandit = Bandit(arms=twins, seed=0)
    for step in range(30):
        bandit.decide(context(step), eligible=["known"])
    explanation = bandit.explain(context(0))
    bonuses = dict(zip(explanation.arms, explanation.bonuses, strict=True))
    assert bonuses["known"] < bonuses["new"], "the twins share all other evidence"


def test_arms_of_a_request_and_eligible_arms_combine() -> None:
    bandit = Bandit(arms=CATALOG)
    assert bandit.decide(context(0), eligible=["m4"]).arms == ("m4",)
    assert bandit.decide(context(0), arms=request(0), eligible=["x1", "x2"]).arms == ("x1", "x2")
    with pytest.raises(UnknownArm, match="no candidate 'm4'"):
        bandit.decide(context(0), arms=request(0), eligible=["m4"])


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        ({}, "no candidates"),
        ([], "no candidates"),
        ([("a", {}), ("a", {})], "'a' occurs more than once"),
        ({"a": 3.0}, "features of the arm 'a' must be a dict"),
        (["a", "b"], "a candidate must be a pair"),
        ("ab", "must be a dict"),
        ({True: {}}, "must be a string or an integer"),
        ({"a": {(1, 2): 3}}, "name of a feature"),
    ],
)
def test_invalid_candidates_are_refused_and_change_nothing(arms: Any, message: str) -> None:
    bandit = Bandit(arms=CATALOG, **SMALL)
    run(bandit, 5)
    before = state(bandit)
    with pytest.raises(InvalidInput, match=message):
        bandit.decide(context(0), arms=arms)
    assert state(bandit) == before


def test_more_slots_than_candidates_are_refused_and_change_nothing() -> None:
    bandit = Bandit(arms=CATALOG, **SMALL)
    run(bandit, 5)
    before = state(bandit)
    for k in (4, 0, True, "2"):
        with pytest.raises(InvalidInput, match="k must be"):
            bandit.rank(context(0), k=k)  # type: ignore[arg-type]
    assert state(bandit) == before


def test_arms_without_features_cannot_have_candidates() -> None:
    bandit = Bandit(arms=["a", "b"])
    with pytest.raises(InvalidInput, match="eligible="):
        bandit.decide({"age": 3}, arms={"c": {}})
    with pytest.raises(InvalidSettings, match="arm_schema requires"):
        Bandit(arms=["a", "b"], arm_schema={"price": "number"})


def test_problems_with_features_are_counted_and_are_no_error() -> None:
    bandit = Bandit(arms=CATALOG, **SMALL)
    odd = {
        "nan": {"genre": "noir", "price": float("nan"), "topic": [0.5, float("nan")]},
        "length": {"genre": "noir", "price": 1.0, "topic": [0.5, 0.2, 0.1]},
        "other": {"price": "cheap", "color": "red", "nested": {"a": 1}},
    }
    bandit.decide(context(0), arms=odd)
    assert bandit.schema is not None
    schema = bandit.schema.arms
    assert schema is not None
    assert schema.features["topic[1]"].problems["missing"] == 1
    assert schema.features["topic[0]"].problems["unsupported"] == 1
    assert schema.features["price"].problems["type_changed"] == 1
    assert schema.features["color"].kind == "category"


def test_an_arm_whose_features_change_is_encoded_again() -> None:
    bandit = Bandit(arms={}, **SMALL)
    bandit.decide(context(0), arms={"a": {"price": 1.0}, "b": {"price": 5.0}, "c": {"price": 9.0}})
    cheap = bandit._core.prepare(context(0), {"a": {"price": 1.0}}).arms
    dear = bandit._core.prepare(context(0), {"a": {"price": 9.0}}).arms
    assert cheap is not None
    assert dear is not None
    assert cheap.candidates.features.tolist() != dear.candidates.features.tolist()


def test_a_bandit_with_an_empty_catalog_can_be_saved(tmp_path: Path) -> None:
    bandit = Bandit(arms={}, **SMALL)
    for step in range(2):
        bandit.save(tmp_path / f"{step}.glcb")
        assert Bandit.load(tmp_path / f"{step}.glcb").get_params()["arms"] == {}
        bandit.decide(context(0), arms={"a": {"price": 1.0}})


def test_memory_is_bounded_for_any_number_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_module, "MAX_RECENT", 50)
    bandit = Bandit(arms={}, max_pending=10, **SMALL)
    for step in range(60):
        bandit.reward(bandit.decide(context(step), arms=request(100 * step)).id, 0)
    catalog = bandit._core.catalog
    assert catalog is not None
    assert catalog.recent == 50
    assert len(bandit.reward_counts) == 50


def test_a_catalog_can_change() -> None:
    bandit = Bandit(arms=CATALOG, **SMALL)
    run(bandit, 6)
    bandit.add_arm("new", features={"genre": "drama", "price": 7.0})
    bandit.remove_arm("m17")
    assert bandit.arms == ("m4", "m9", "new")
    assert bandit.decide(context(0)).arms == ("m4", "m9", "new")
    bandit.set_arms({"only": {"price": 1.0}})
    assert bandit.decide(context(0)).probabilities == {"only": 1.0}
    with pytest.raises(InvalidInput, match="instead of like"):
        bandit.add_arm("copy", like="only")


def test_a_loaded_bandit_continues_exactly(tmp_path: Path) -> None:
    bandit = Bandit(arms=CATALOG, slots=3, **SMALL)
    run(bandit, 20)
    bandit.save(tmp_path / "model.glcb")
    loaded = Bandit.load(tmp_path / "model.glcb")
    assert run(loaded, 20, start=20) == run(bandit, 20, start=20)
    assert state(loaded) == state(bandit)


@pytest.mark.parametrize("slots", [1, 3])
def test_a_replayed_log_gives_the_same_state(slots: int, tmp_path: Path) -> None:
    writer = Bandit(arms=CATALOG, slots=slots, **SMALL)
    writer.log_to(tmp_path / "log.jsonl")
    run(writer, 20)
    writer.add_arm("new", features={"genre": "drama", "date": datetime.date(2026, 11, 17)})
    run(writer, 10, start=20)
    writer.log_to(None)
    reader = Bandit(arms=CATALOG, slots=slots, **SMALL)
    report = reader.learn_from(tmp_path / "log.jsonl")
    assert not report.refused
    assert state(reader)[1] == state(writer)[1]


def test_a_log_carries_the_candidates_with_their_features(tmp_path: Path) -> None:
    bandit = Bandit(arms=CATALOG, **SMALL)
    bandit.log_to(tmp_path / "log.jsonl")
    bandit.decide(context(0))
    bandit.decide(context(1), arms={"a": {"topic": np.array([0.5, 0.25])}})
    text = (tmp_path / "log.jsonl").read_text()
    assert '{"arm":"m9","features":{"genre":"noir","price":2.0,"tags":["new"]}}' in text
    assert '"arms":[{"arm":"a","features":{"topic":[0.5,0.25]}}]' in text


def test_a_table_can_have_the_features_of_the_chosen_arm(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('age,arm,arm_features,reward\n3,a,"{""price"": 1}",1\n4,m4,,0\n5,unknown,,1\n')
    bandit = Bandit(arms=CATALOG, **SMALL)
    report = bandit.learn_from(path)
    assert (report.learned, dict(report.refused)) == (2, {"unknown arm": 1})


def test_contributions_of_context_and_arm_add_up() -> None:
    bandit = Bandit(arms=CATALOG)
    run(bandit, 40)
    explanation = bandit.explain(context(3))
    assert set(explanation.arms) == set(CATALOG)
    assert {"age", "country", "arm.genre", "arm.topic", "arm.tags"} <= set(explanation.features)
    totals = explanation.bases + explanation.contributions.sum(axis=1)
    np.testing.assert_allclose(totals, explanation.values, atol=1e-6)
    assert "arm.genre = comedy" in str(explanation)
    decision = bandit.decide(context(3), eligible=["m4"])
    index = explanation.arms.index("m4")
    assert explanation.values[index] == pytest.approx(decision.values[0], abs=1e-6)
    assert explanation.as_dict()["arms"][index]["features"]["arm.genre"] == "comedy"


def test_features_that_cannot_be_used_stay_the_same_in_every_copy() -> None:
    features: list[Any] = [
        [None, 1, "it's"],
        {"date": 7},
        {"x": {"y": "z" * 200}},
        {"unsupported": "u" * 200},
    ]
    first = Bandit(arms={f"{number}": {"x": value} for number, value in enumerate(features)})
    second = Bandit._from_snapshot(first._snapshot())
    assert second._snapshot().arguments == first._snapshot().arguments
    assert recorded.catalog(second) == recorded.catalog(first)


def test_integers_of_more_than_64_bits_are_stored_as_floats() -> None:
    bandit = Bandit(arms={"a": {"x": 2**64, "y": [10**300, -(2**70), 2**63, True, 10**400]}})
    assert recorded.catalog(bandit) == {"a": {"x": 2.0**64, "y": [None, -(2.0**70), 2**63, True, None]}}
    msgspec.msgpack.encode(dict(recorded.catalog(bandit) or {}))  # as in a snapshot of the service
    assert recorded.catalog(Bandit._from_snapshot(bandit._snapshot())) == recorded.catalog(bandit)


def test_parameters_are_those_of_an_equal_bandit() -> None:
    bandit = Bandit(arms=CATALOG, slots=2)
    assert bandit.get_params()["arms"] is CATALOG
    bandit.add_arm("new", features={})
    assert list(bandit.get_params()["arms"]) == ["m17", "m4", "m9", "new"]
