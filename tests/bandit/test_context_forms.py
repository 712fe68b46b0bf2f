"""Contexts of all forms, and the description and saving of the encoder."""

import subprocess
import sys
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

from glcb import Bandit, InvalidContext
from glcb.bandit.encoding.encoder import Encoder
from tests.support.encoders import FIRST, encoded, opened, problems


def test_rows_of_data_frames_are_contexts(frames: Any) -> None:
    rows: list[dict[str, Any]] = [
        FIRST,
        {"age": 40, "country": "DE", "member": False},
        {"age": None, "country": "FR", "member": True},
    ]
    frame = frames.DataFrame(rows)
    encoders = [opened() for _ in range(3)]
    for i, row in enumerate(rows):
        by_pandas = hasattr(frame, "iloc")
        forms = (frame.iloc[i], frame.iloc[[i]]) if by_pandas else (frame.row(i, named=True), frame[i])
        results = [encoded(encoder, form) for encoder, form in zip(encoders, (row, *forms), strict=True)]
        assert all(result == results[0] for result in results)


def test_a_named_tuple_is_a_context() -> None:
    visitor = namedtuple("visitor", ["age", "country", "member"])
    one, other = opened(), opened()
    for row in (FIRST, {"age": None, "country": "DE", "member": False}):
        assert encoded(one, visitor(**row)) == encoded(other, row)


@pytest.mark.parametrize(
    "form",
    [list, tuple, np.array, lambda values: pytest.importorskip("polars").Series(values), np.ma.array],
    ids=["list", "tuple", "array", "series", "masked array"],
)
def test_lists_and_arrays_are_contexts(form: Any) -> None:
    encoder = opened(form([1.0, 2.0, 3.0]))
    assert list(encoder.schema.features) == ["0", "1", "2"]
    assert encoded(encoder, form([2.0, 1.0, 3.0]))[:3] == [0.75, 0.25, 0.5]


def test_lists_may_mix_types_and_masked_values_are_missing() -> None:
    encoder = opened([1.0, "red", True])
    assert [feature.kind for feature in encoder.schema.features.values()] == ["number", "category", "boolean"]
    encoder = opened([1.0, 2.0])
    encoded(encoder, np.ma.array([1.0, 2.0], mask=[False, True]))
    assert problems(encoder, "1") == {"missing": 1}


@pytest.mark.parametrize(
    "context",
    [
        None,
        5,
        0.5,
        True,
        "text",
        b"bytes",
        {1, 2},
        object(),
        iter([1]),
        [[1, 2]],
        np.zeros((1, 2)),
        np.array(1.0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_objects_are_not_contexts(context: Any) -> None:
    with pytest.raises(InvalidContext, match="context"):
        opened(context)
    with pytest.raises(InvalidContext, match="context"):
        opened().encode(context)


@pytest.mark.parametrize("column", [[1, 2], []])
def test_a_frame_must_have_exactly_one_row(column: list[int], frames: Any) -> None:
    with pytest.raises(InvalidContext, match="one row"):
        opened(frames.DataFrame({"a": column}))


def test_lists_and_dicts_cannot_be_mixed() -> None:
    with pytest.raises(InvalidContext, match="had named values, but this one has 2 values"):
        opened().encode([1, 2])
    with pytest.raises(InvalidContext, match="had 3 values, but this one has named values"):
        opened([1, 2, 3]).encode({"0": 1})
    with pytest.raises(InvalidContext, match="had 3 values, but this one has 2 values"):
        opened([1, 2, 3]).encode([1, 2])


def test_names_may_be_integers_but_must_be_unique() -> None:
    encoder = opened({0: 1.5, "b": 2.5})
    assert encoded(encoder, {0: 2, "b": 2}) == encoded(opened({"0": 1.5, "b": 2.5}), {"0": 2, "b": 2})
    for context in ({0: 1, "0": 1}, {"b": 1, 5: 1, "5": 1}, {5: 1, "5": 1}):
        with pytest.raises(InvalidContext, match="two features named"):
            encoder.encode(context)
    for key in (1.5, None, True, (1,), b"x"):
        with pytest.raises(InvalidContext, match="must be a string or an integer"):
            encoder.encode({key: 1})
        with pytest.raises(InvalidContext, match="must be a string or an integer"):
            opened({key: 1})


def test_long_names_and_values_are_shortened_to_a_digest() -> None:
    encoder = opened({"k" * 1000: "v" * 1000})
    one = encoded(encoder, {"k" * 1000: "v" * 1000})
    other = encoded(encoder, {"k" * 1000: "v" * 1001})
    assert one != other
    assert one == encoded(encoder, {"k" * 1000: "v" * 1000})
    assert max(map(len, encoder.schema.features)) <= 100


def test_invalid_unicode_is_escaped() -> None:
    encoder = opened()
    context = {"country": "Stra\udcdfe", "x\ud800": "\udfff"}
    assert encoded(encoder, context) == encoded(encoder, context)
    features = encoder.schema.features
    assert "Stra\\udcdfe" in features["country"].values
    assert features["x\\ud800"].values == ("\\udfff",)
    with pytest.raises(InvalidContext, match="two features named"):
        encoder.encode({"x\ud800": 1, "x\\ud800": 1})


def test_too_many_features_are_refused() -> None:
    with pytest.raises(InvalidContext, match="at most 100,000 features"):
        opened({str(i): 1 for i in range(100_001)})


def test_the_hash_is_the_same_in_every_process() -> None:
    program = (
        "from glcb.bandit.encoding.slots import Slots\n"
        "print([Slots(2, 50, (), ()).hashed(f'key={i}') for i in range(50)])"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


def test_the_schema_describes_features_and_problems() -> None:
    encoder = opened()
    for context in ({**FIRST, "age": 50, "country": "DE"}, {**FIRST, "age": "old"}, {"country": "FR"}):
        encoded(encoder, context)
    text = repr(encoder.schema)
    assert "age      number, from 30 to 50, 1 type changed, 1 missing" in text
    assert "country  category, 2 values: FR, DE" in text
    assert "member   boolean, 1 missing" in text
    assert f"{encoder.width} slots" in text
    assert encoder.schema.problems["missing"] == 2


def test_a_restored_encoder_continues_like_the_original() -> None:
    encoder = opened()
    for i in range(400):
        encoded(encoder, {"age": i % 50, "country": f"c{i % 7}", "extra": i})
    copy = Encoder.from_snapshot(*encoder.snapshot())
    for i in range(100):
        context = {"age": i, "country": f"d{i}", f"k{i}": "v", "member": None}
        assert encoded(copy, context) == encoded(encoder, context)
    assert copy.snapshot()[0] == encoder.snapshot()[0]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("slots",), [5, 2, 9]),
        (("slots",), [1.5, 30, 3]),
        (("slots",), [2]),
        (("length",), "three"),
        (("unmapped",), None),
        (("features", 0, "slot"), 99),
        (("features", 0, "slot"), -7),
        (("features", 0, "slot"), "0"),
        (("features", 0, "column"), -1),
        (("features", 0, "column"), 1),
        (("features", 0, "kind"), "color"),
        (("features", 0, "kind"), "boolean"),
        (("features", 0, "problems"), {"weather": 1}),
        (("features", 0, "problems"), {"out_of_range": -2}),
        (("features", 1, "values"), {"FR": 99}),
        (("features", 1, "values"), 5),
        (("features", 1, "values"), {"\ud800": 2}),
        (("features", 0, "name"), "\ud800"),
        (("features", 0, "name"), 5),
        (("features", 0), {"name": "age"}),
    ],
    ids=str,
)
def test_an_invalid_snapshot_is_refused(path: tuple[Any, ...], value: object) -> None:
    encoder = opened()
    metadata: Any
    metadata, arrays = encoder.snapshot()
    Encoder.from_snapshot(metadata, arrays)
    place = metadata
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises((ValueError, TypeError, KeyError)):
        Encoder.from_snapshot(metadata, arrays)


def test_a_huge_integer_in_a_known_feature_is_accepted_as_infinite() -> None:
    bandit = Bandit(arms=["a", "b"])
    for age in (31, 45.5, 10**400):
        bandit.decide({"age": age, "hour": 1.5})
    assert bandit.schema is not None
    assert bandit.counts["decisions"] == 3
