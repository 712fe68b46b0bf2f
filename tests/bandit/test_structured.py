"""Vectors, lists of tags and dates as features of contexts."""

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import Bandit
from glcb.bandit.encoding.encoder import Encoder
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
