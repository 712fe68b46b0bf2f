"""Vectors, lists of tags and dates as features of contexts."""

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import Bandit, InvalidSettings
from glcb.bandit.encoding.encoder import Encoder
from glcb.bandit.encoding.schema import parse_schema
from glcb.bandit.logs.format import plain_context

ARMS = ["a", "b"]


def encoder_for(*contexts: dict[str, Any]) -> Encoder:
    encoder = Encoder({}, contexts[0], None)
    for context in contexts:
        encoder.commit(encoder.encode(context))
    return encoder


@pytest.mark.parametrize("make", [list, tuple, np.array])
def test_a_vector_is_a_number_per_component(make: Any) -> None:
    encoder = encoder_for(*({"v": make([float(i), 5.0 - i])} for i in range(5)))
    assert [encoder.schema.features[f"v[{i}]"].kind for i in range(2)] == ["number", "number"]
    low, high = encoder.encode({"v": make([0.0, 5.0])}).x, encoder.encode({"v": make([4.0, 1.0])}).x
    assert low[0] < high[0]
    assert low[1] > high[1]


def test_a_missing_vector_takes_one_indicator() -> None:
    encoder = encoder_for({"v": [0.1] * 12}, {"v": [0.3] * 12})
    encoded = encoder.encode({})
    assert encoded.x[:12].tolist() == [0.5] * 12
    encoder.commit(encoded)
    assert encoder.schema.problems["missing"] == 1
    assert encoder.encode({"v": None}).x.tolist() == encoder.encode({}).x.tolist()


def test_a_vector_of_another_length_and_components_without_a_value_are_counted() -> None:
    encoder = encoder_for({"v": [0.1, 0.2]}, {"v": [0.1, 0.2, 0.3]}, {"v": [0.3, float("nan")]}, {"v": []})
    assert encoder.schema.problems["unsupported"] == 1
    assert encoder.schema.features["v[1]"].problems["missing"] == 1
    assert "v[2]" not in encoder.schema.features


def test_a_late_vector_without_space_is_left_out_as_a_whole() -> None:
    encoder = encoder_for({"age": 1}, {"age": 2, "v": [0.5] * 1000})
    assert encoder.schema.unmapped == 1
    assert list(encoder.schema.features) == ["age"]


def test_a_tag_is_a_boolean_and_its_absence_is_not_missing() -> None:
    encoder = encoder_for({"tags": ["new", "sale"]}, {"tags": ["sale", "late"]}, {"tags": []}, {})
    features = encoder.schema.features
    assert [features[f"tags={tag}"].kind for tag in ("new", "sale", "late")] == ["boolean"] * 3
    assert encoder.schema.problems["missing"] == 0
    one, same = ({"tags": order} for order in (["new", "late"], {"late", "new"}))
    assert encoder.encode(one).x.tolist() == encoder.encode(same).x.tolist()


def test_a_date_is_a_point_in_time_a_weekday_and_an_hour() -> None:
    monday = datetime.datetime(2026, 11, 16, 9, 30, tzinfo=datetime.UTC)
    encoder = encoder_for({"at": monday}, {"at": monday + datetime.timedelta(days=1, hours=5)})
    assert list(encoder.schema.features) == ["at", "at.weekday", "at.hour"]
    assert encoder.schema.features["at.hour"].limits == (9.5, 14.5)
    as_json = {"at": {"date": monday.isoformat()}}
    assert encoder.encode(as_json).x.tolist() == encoder.encode({"at": monday}).x.tolist()


def test_a_plain_feature_does_not_become_a_structured_one() -> None:
    encoder = encoder_for({"age": 3}, {"age": [1, 2]})
    assert list(encoder.schema.features) == ["age"]
    assert encoder.schema.problems["unsupported"] == 1


def test_structured_values_survive_a_log(tmp_path: Path) -> None:
    context = {
        "v": np.array([0.1, 0.2]),
        "tags": {"b", "a"},
        "day": datetime.date(2026, 11, 17),
        "odd": {"x": 1},
    }
    plain = json.loads(json.dumps(plain_context(context)))
    encoder = encoder_for(context)
    assert encoder.encode(plain).x.tolist() == encoder.encode(context).x.tolist()
    writer, reader = Bandit(ARMS), Bandit(ARMS)
    writer.log_to(tmp_path / "log.jsonl")
    writer.reward(writer.decide(context).id, 1)
    writer.log_to(None)
    reader.learn_from(tmp_path / "log.jsonl")
    assert reader.schema == writer.schema


def test_an_explanation_has_one_contribution_for_a_whole_vector() -> None:
    bandit = Bandit(ARMS)
    context = {"v": [0.1, 0.2], "tags": ["a"], "age": 3}
    for step in range(10):
        bandit.reward(bandit.decide(context).id, step % 2)
    explanation = bandit.explain(context)
    assert set(explanation.features) == {"v", "tags", "age"}
    np.testing.assert_allclose(
        explanation.bases + explanation.contributions.sum(axis=1), explanation.values, atol=1e-6
    )


# ---- declared structures ----------------------------------------------------------------------------

DECLARED = {
    "topic": {"kind": "vector", "length": 3, "range": [-1, 1]},
    "tags": {"kind": "tags", "values": ["new", "sale"]},
    "published": {"kind": "date", "range": ["2026-01-01", "2027-01-01"]},
}


def declared_encoder(schema: dict[str, Any], *contexts: dict[str, Any]) -> Encoder:
    encoder = Encoder(parse_schema(schema), contexts[0], None)
    for context in contexts:
        encoder.commit(encoder.encode(context))
    return encoder


def test_declared_structures_have_slots_and_scales_before_their_first_value() -> None:
    encoder = declared_encoder(DECLARED, {"age": 3})
    parts = [f"topic[{i}]" for i in range(3)] + ["tags=new", "tags=sale"]
    parts += ["published", "published.weekday", "published.hour"]
    assert list(encoder.schema.features) == [*parts, "age"]
    x = encoder.encode({"topic": [-1, 0, 1], "tags": ["sale"], "published": datetime.date(2026, 1, 1)}).x
    assert x[:8].tolist() == [0, 0.5, 1, 0, 1, 0, 0.5, 0]
    assert encoder.schema.problems["missing"] == 3  # the vector, the date and its weekday; not the tags


@pytest.mark.parametrize(
    ("plain", "structured"),
    [
        ({"published": "2026-11-17T09:30"}, {"published": {"date": "2026-11-17T09:30"}}),
        ({"tags": "new"}, {"tags": ["new"]}),
        ({"tags": [7, "new"]}, {"tags": ["7", "new"]}),
    ],
)
def test_plain_values_are_converted_to_a_declared_structure(
    plain: dict[str, Any], structured: dict[str, Any]
) -> None:
    for first in (plain, structured, {}):
        encoder = declared_encoder(DECLARED, first)
        assert (encoder.encode(plain).x == encoder.encode(structured).x).all()


@pytest.mark.parametrize(
    ("context", "problem"),
    [
        ({"topic": [0.1, 0.2]}, "unsupported"),
        ({"topic": [0.1] * 5}, "unsupported"),
        ({"topic": 0.5}, "unsupported"),
        ({"topic": ["new"]}, "unsupported"),
        ({"published": "soon"}, "type_changed"),
        ({"published": [1, 2]}, "unsupported"),
    ],
)
def test_values_without_the_declared_structure_are_counted(context: dict[str, Any], problem: str) -> None:
    for first in (context, {}):
        encoder = declared_encoder(DECLARED, first)
        features, before = list(encoder.schema.features), encoder.schema.problems[problem]
        encoder.commit(encoder.encode(context))
        assert encoder.schema.problems[problem] == before + 1
        assert list(encoder.schema.features) == features


def test_what_is_not_a_tag_is_left_out() -> None:
    encoder = declared_encoder(DECLARED, {}, {"tags": [["new"]]}, {"tags": ["new", None]})
    assert encoder.schema.unmapped == 2
    assert not any(name == "tags" for name in encoder.schema.features)


def test_declared_structures_survive_saving_and_can_be_declared_later(tmp_path: Path) -> None:
    context = {"topic": [0.1, 0.2, 0.3], "tags": "sale", "published": "2026-11-17"}
    bandit = Bandit(ARMS, schema=DECLARED)
    bandit.decide(context)
    bandit.save(tmp_path / "model")
    loaded = Bandit.load(tmp_path / "model")
    assert str(loaded.decide(context)) == str(bandit.decide(context))
    assert parse_schema(loaded.get_params()["schema"]) == parse_schema(DECLARED)
    late = Bandit(ARMS, spare_slots=20)
    late.decide({"age": 1})
    late.set_params(schema=DECLARED)
    late.decide(context)
    assert late.schema is not None
    assert late.schema.problems["unsupported"] == 0
    assert "topic[2]" in late.schema.features


def test_arms_can_have_declared_structures() -> None:
    bandit = Bandit(
        arms={"m1": {"topic": [0.1, 0.2, 0.3]}, "m2": {"published": "2026-11-17"}}, arm_schema=DECLARED
    )
    bandit.decide({})
    assert bandit.schema is not None
    assert bandit.schema.arms is not None
    assert {"topic[2]", "tags=sale", "published.weekday"} <= set(bandit.schema.arms.features)


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ("vector", "must be declared with its length"),
        ({"kind": "vector", "length": 0}, "from 1 to 100,000.* got 0"),
        ({"kind": "vector", "length": True}, "got True"),
        ({"kind": "vector", "length": 2, "values": [1]}, "can be declared with length and range, got values"),
        ({"kind": "vector", "length": 2, "range": [1, 0]}, "low < high"),
        ({"kind": "tags", "values": "new"}, "must be a list"),
        ({"kind": "date", "range": ["2026-01-01", "soon"]}, "must be two dates"),
        ({"kind": "date", "range": ["2026-02-01", "2026-01-01"]}, "the earlier one first"),
        ("words", '"tags", "date", a vector such as'),
    ],
)
def test_bad_declarations_say_what_is_expected(declaration: Any, message: str) -> None:
    with pytest.raises(InvalidSettings, match=message):
        Bandit(ARMS, schema={"v": declaration})
    with pytest.raises(InvalidSettings, match=message):
        Bandit(arms={"a": {}}, arm_schema={"v": declaration})


def test_a_part_cannot_be_declared_again() -> None:
    with pytest.raises(InvalidSettings, match=r"'v\[0\]' is declared twice"):
        Bandit(ARMS, schema={"v": {"kind": "vector", "length": 2}, "v[0]": "category"})
