"""Slots go to what is frequent, however many rare features and values there are."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import Bandit, InvalidSettings
from glcb.bandit.encoding.encoder import Encoder
from glcb.bandit.encoding.schema import parse_schema
from glcb.bandit.encoding.slots import HALVING_PERIOD, MAX_CANDIDATES, SlotCandidate, SlotCandidates
from tests.support.bandits import full_state
from tests.support.encoders import encoded, opened, problems, state

Context = dict[str, Any]


def junk(request: int) -> Context:
    return {f"junk {request} {i}": i for i in range(8)}


def share_of_best(
    bandit: Bandit, draw: Callable[[np.random.Generator], tuple[Context, str]], decisions: int
) -> float:
    """Return how often the bandit chooses the best arm in the last quarter of the decisions."""
    rng, best = np.random.default_rng(0), 0
    for number in range(decisions):
        context, good = draw(rng)
        decision = bandit.decide(context)
        bandit.reward(decision.id, float(decision.arm == good))
        best += decision.arm == good and number >= 0.75 * decisions
    return best / (0.25 * decisions)


def by_country(rng: np.random.Generator) -> tuple[Context, str]:
    country = ("FR", "DE", "IT")[rng.integers(3)]
    return {"country": country}, {"FR": "a", "DE": "b", "IT": "c"}[country]


def by_number(rng: np.random.Generator) -> tuple[Context, str]:
    age = int(rng.integers(18, 90))
    return {"age": age}, "a" if age < 40 else "b" if age < 65 else "c"


@pytest.mark.parametrize("policy", ["glcb", "linucb"])
def test_a_bandit_recovers_from_junk_that_came_first(policy: str) -> None:
    bandit = Bandit(["a", "b", "c"], policy=policy)
    for request in range(8):
        bandit.decide(junk(request))
    assert bandit.schema is not None
    assert bandit.schema.free == 0
    assert share_of_best(bandit, by_country, 2000) > 0.9


@pytest.mark.parametrize("policy", ["glcb", "linucb"])
def test_a_bandit_recovers_from_a_number_that_was_first_sent_as_text(policy: str) -> None:
    bandit = Bandit(["a", "b", "c"], policy=policy)
    bandit.decide({"age": "31"})
    assert share_of_best(bandit, by_number, 3000) > 0.85
    assert bandit.schema is not None
    assert bandit.schema.features["age"].kind == "number"


def test_a_bandit_recovers_from_many_extreme_numbers() -> None:
    bandit, rng = Bandit(["a", "b", "c"], policy="linucb"), np.random.default_rng(1)
    assert share_of_best(bandit, by_number, 2000) > 0.85
    for _ in range(15_000):
        decision = bandit.decide({"age": float(rng.choice([-1, 1]) * 10 ** rng.uniform(50, 290))})
        bandit.reward(decision.id, float(rng.integers(2)))
    assert share_of_best(bandit, by_number, 8000) > 0.75


def test_a_frequent_value_takes_the_slot_of_a_rare_one() -> None:
    encoder = opened({"country": "c0"}, spare_slots=16)
    for value in range(16):
        encoded(encoder, {"country": f"c{value}"})
    assert encoder.schema.free == 0
    for _ in range(30):
        encoded(encoder, {"country": "frequent"})
    assert "frequent" in encoder.schema.features["country"].values
    assert len(encoder.schema.features["country"].values) == 16
    assert sum(encoded(encoder, {"country": "frequent"})) == 1
    shared = problems(encoder, "country")["hashed"]
    encoded(encoder, {"country": "frequent"})
    assert problems(encoder, "country")["hashed"] == shared


def test_values_of_the_same_frequency_keep_their_slots() -> None:
    encoder, rng = opened({"country": "c0"}, spare_slots=16), np.random.default_rng(10_000)
    owners = set()
    for _ in range(12_000):
        encoded(encoder, {"country": f"c{rng.integers(32)}"})
        owners.add(encoder.schema.features["country"].values)
    assert len(owners) <= 17


def test_a_slot_that_is_no_longer_used_goes_to_a_newcomer() -> None:
    encoder = opened({"age": 30}, spare_slots=1)
    for hour in range(3000):
        encoded(encoder, {"age": 30, "hour": hour % 24})
    for _ in range(2 * HALVING_PERIOD):
        encoded(encoder, {"age": 30, "city": "Rome"})
    assert encoder.schema.features.keys() == {"age", "city"}
    assert encoded(encoder, {"age": 30, "city": "Rome"})[1] == 1


def test_declared_slots_are_never_taken() -> None:
    schema = {"country": ["FR", "DE"], "age": "number", "member": "boolean"}
    encoder = opened({}, schema, spare_slots=1)
    for _ in range(2000):
        encoded(encoder, {"junk": "x", "more": 5, "other": True})
    features = encoder.schema.features
    assert features["country"].values == ("FR", "DE")
    assert (features["age"].kind, features["member"].kind) == ("number", "boolean")


def test_features_of_a_first_context_that_never_return_give_up_their_slots() -> None:
    encoder = opened({f"junk {i}": i for i in range(20)}, spare_slots=0)
    for number in range(400):
        encoded(encoder, {"age": number % 50, "country": "FR" if number % 2 else "DE"})
    features = encoder.schema.features
    assert features["age"].kind == "number"
    assert set(features["country"].values) == {"FR", "DE"}
    assert features.keys() == {"age", "country"}


def test_a_feature_that_is_often_missing_stays_expected() -> None:
    encoder = opened({"age": 30, "country": "FR"})
    for number in range(1000):
        encoded(encoder, {"country": "FR", **({"age": 30} if number % 2 else {})})
    assert problems(encoder, "age")["missing"] == 500


@pytest.mark.parametrize(
    ("first", "later", "kind"),
    [
        ("31", list(range(40)), "number"),
        (0, ["FR", "DE", "IT"], "category"),
        (True, list(range(40)), "number"),
        ("yes", [True, False], "boolean"),
        (False, ["yes", "no"], "category"),
    ],
    ids=str,
)
def test_a_first_value_does_not_fix_the_kind(first: Any, later: list[Any], kind: str) -> None:
    encoder = opened({"value": first})
    for number in range(60):
        encoded(encoder, {"value": later[number % len(later)]})
    assert encoder.schema.features["value"].kind == kind
    assert len(encoder.schema.features["value"].values) == (len(later) if kind == "category" else 0)


def test_a_declared_kind_does_not_change() -> None:
    encoder = opened({"zip": "75001"}, {"zip": "category"})
    for number in range(200):
        encoded(encoder, {"zip": 75000 + number % 10})
    assert encoder.schema.features["zip"].kind == "category"


def test_numbers_and_booleans_sent_as_text_are_recognized() -> None:
    first = {"price": 3.0, "member": True}
    text, plain = opened(first), opened(first)
    for number, member in ((3.5, True), (1e3, False), (-2, True)):
        row = {"price": str(number), "member": str(member).lower()}
        assert encoded(text, row) == encoded(plain, {"price": number, "member": member})
    assert text.schema.problems == plain.schema.problems


def test_a_hundred_thousand_names_do_not_hide_a_frequent_feature() -> None:
    encoder = opened({"age": 30}, spare_slots=4)
    for number in range(10_000):
        names = {f"{number} {i}" + "x" * 90: number for i in range(10)}
        encoded(encoder, {**names, "age": 31, "hour": number % 24})
    assert encoder.schema.features["hour"].kind == "number"
    assert len(encoder.schema.features) <= encoder.width
    assert len(json.dumps(encoder.snapshot()[0])) < 100_000


def test_counts_of_candidates_are_lower_bounds() -> None:
    candidates, rng = SlotCandidates(), np.random.default_rng(10_000)
    frequent = SlotCandidate("frequent", "number", "")
    added = 0
    for number in range(20_000):
        if rng.random() < 0.1:
            candidates.add(frequent)
            added += 1
        else:
            candidates.add(SlotCandidate(f"rare {number}", "number", ""))
    assert added - 20_000 / MAX_CANDIDATES <= candidates[frequent] <= added
    assert len(candidates.snapshot()) <= MAX_CANDIDATES


@pytest.mark.parametrize("contexts", [50, 4_990, 5_200])
def test_a_restored_encoder_continues_bit_for_bit(contexts: int) -> None:
    rng = np.random.default_rng(10_000)

    def draw() -> Context:
        row: Context = {"age": int(rng.integers(90)), "country": f"c{rng.zipf(1.4)}"}
        row[f"feature {rng.zipf(1.3)}"] = rng.choice(["x", "y"]) if rng.random() < 0.5 else rng.random()
        return {name: value for name, value in row.items() if rng.random() < 0.9}

    encoder = opened(draw())
    for _ in range(contexts):
        encoded(encoder, draw())
    metadata, arrays = encoder.snapshot()
    arrays = {name: array.copy() for name, array in arrays.items()}
    restored = Encoder.from_snapshot(json.loads(json.dumps(metadata)), arrays)
    for _ in range(300):
        row = draw()
        assert encoded(encoder, row) == encoded(restored, row)
    assert state(encoder) == state(restored)


def test_a_plan_changes_nothing_about_the_result() -> None:
    rng = np.random.default_rng(10_000)
    odd = (None, math.nan, math.inf, 1e301, -1e301, 10**400, -(10**400), "3", "x", True, 0, [1], ["x"], 1e299)
    first = {"age": 30, "price": 2.5, "country": "FR", "city": "x", "member": True}
    planned, plain = opened(first), opened(first)
    for _ in range(4000):
        row: Context = {
            "age": int(rng.integers(90)),
            "price": float(rng.normal()),
            "country": f"c{rng.zipf(1.5)}",
            "city": "xyz"[rng.integers(3)],
            "member": bool(rng.integers(2)),
        }
        if rng.random() < 0.2:
            row[list(row)[rng.integers(5)]] = odd[rng.integers(len(odd))]
        if rng.random() < 0.2:
            del row[list(row)[rng.integers(5)]]
        if rng.random() < 0.1:
            row[f"feature {rng.zipf(1.3)}"] = float(rng.random())
        plain._plans.clear()
        assert encoded(planned, row) == encoded(plain, row)
    assert state(planned) == state(plain)
    assert planned._plans


# ---- declaring again --------------------------------------------------------------------------------


def test_a_schema_can_be_declared_again() -> None:
    encoder = opened({"age": "31", "hour": 5, **junk(0)}, spare_slots=4)
    schema = {"age": (0, 100), "country": ["FR", "DE"], "hour": "number"}
    declared = encoder.redeclared(parse_schema(schema))
    features = declared.schema.features
    assert features["age"].limits == (0, 100)
    assert features["country"].values == ("FR", "DE")
    assert features["hour"].limits == (5, 5)  # it keeps its scale
    assert declared.width == encoder.width
    x = encoded(declared, {"age": "25", "country": "DE", "hour": 5})
    assert x.count(0.25) == 1
    assert encoder.schema.features["age"].kind == "category"


def test_a_schema_that_is_too_large_changes_nothing() -> None:
    encoder = opened({"age": 30}, spare_slots=2)
    before = state(encoder)
    with pytest.raises(InvalidSettings, match="more than the 3 slots"):
        encoder.redeclared(parse_schema({"country": ["FR", "DE", "IT", "ES"]}))
    assert state(encoder) == before


def test_a_feature_that_is_no_longer_declared_can_lose_its_slot() -> None:
    encoder = opened({"age": 30}, {"age": "number"}, spare_slots=0).redeclared({})
    for _ in range(40):
        encoded(encoder, {"hour": 5})
    assert encoder.schema.features["hour"].kind == "number"


def test_a_bandit_changes_its_schema_and_continues(tmp_path: Path) -> None:
    bandit = Bandit(["a", "b"], policy="linucb", schema={"age": "number"})
    pending = bandit.decide({"age": "x", "hour": 3})
    bandit.set_params(schema={"age": "category", "hour": (0, 23)})
    assert bandit.schema is not None
    assert (bandit.schema.features["age"].kind, bandit.schema.features["hour"].limits) == (
        "category",
        (0, 23),
    )
    assert bandit.get_params()["schema"] == {"age": "category", "hour": (0, 23)}
    bandit.reward(pending.id, 1)
    bandit.save(tmp_path / "model")
    loaded = Bandit.load(tmp_path / "model")
    assert repr(loaded.schema) == repr(bandit.schema)
    before = full_state(bandit)
    with pytest.raises(InvalidSettings, match="slots"):
        bandit.set_params(schema={"country": [f"c{i}" for i in range(100)]})
    assert full_state(bandit) == before
    decisions = [one.decide({"age": "x", "hour": 4}) for one in (bandit, loaded)]
    assert decisions[0].id == decisions[1].id


@pytest.mark.parametrize(
    ("schema", "context"),
    [
        pytest.param({"member": "boolean"}, {"country": "FR", "member": 0}, id="false, sent as 0"),
        pytest.param({"hour": (0, 23)}, {"country": "FR", "hour": 0}, id="the lowest number"),
        pytest.param({"hour": "number"}, {"country": "FR"}, id="missing"),
    ],
)
def test_the_owner_of_a_shared_slot_overwrites_it_without_a_wrong_count(
    schema: Context, context: Context, tmp_path: Path
) -> None:
    bandit = Bandit(["a", "b"], policy="uniform", spare_slots=1)
    bandit.decide({"age": 1.0})
    bandit.set_params(schema=schema)  # takes the only spare slot, which the country then shares
    for _ in range(3):
        bandit.decide({"age": 1.0, **context})
    assert bandit._snapshot().arrays["encoder.uses"].tolist() == [4, 0]
    bandit.save(tmp_path / "model")
