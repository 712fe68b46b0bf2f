"""Wide vectors are projected to a few components, which are learned online."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import Bandit, InvalidContext
from glcb._arrays import Float64
from glcb.bandit.encoding.encoder import Encoder
from glcb.bandit.encoding.projection import COMPONENTS, MAX_WIDTH, Projection, to_vector

WIDTH = 384
ARMS = ["a", "b"]


def embeddings(count: int, seed: int = 10_000, rank: int = 8) -> Float64:
    """Return vectors near a subspace of low dimension."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((WIDTH, rank)))[0]
    scales = np.linspace(3, 1, rank)
    vectors: Float64 = rng.standard_normal((count, rank)) * scales @ basis.T
    vectors += 0.02 * rng.standard_normal((count, WIDTH))
    return vectors


def test_the_projection_finds_the_principal_components() -> None:
    vectors = embeddings(2000)
    projection = Projection("v", WIDTH)
    for vector in vectors:
        projection.observe(vector)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found = np.array([list(projection.project(vector).values())[:8] for vector in unit])
    best = np.linalg.svd(unit, compute_uv=False)[:8]
    assert (found**2).sum() > 0.99 * (best**2).sum()
    assert (found**2).sum(axis=0)[0] > 0.9 * best[0] ** 2


def test_one_outlier_does_not_move_the_directions_far() -> None:
    projection = Projection("v", WIDTH)
    for vector in embeddings(500):
        projection.observe(vector)
    probe = embeddings(1, seed=10_001)[0]
    before = np.array(list(projection.project(probe).values()))
    projection.observe(np.full(WIDTH, 1e90))
    after = np.array(list(projection.project(probe).values()))
    assert np.abs(after - before)[:4].max() < 0.05 * np.abs(before).max()


@pytest.mark.parametrize(("width", "features"), [(MAX_WIDTH, MAX_WIDTH), (MAX_WIDTH + 1, COMPONENTS)])
def test_only_wide_vectors_are_projected(width: int, features: int) -> None:
    encoder = Encoder({}, {"age": 3, "v": [0.5] * width}, 0)
    assert encoder.width == 1 + features


@pytest.mark.parametrize("make", [np.asarray, list, tuple])
def test_lists_and_arrays_are_the_same_vector(make: Any) -> None:
    expected = Encoder({}, {"v": embeddings(1)[0]}, None)
    encoder = Encoder({}, {"v": make(embeddings(1)[0])}, None)
    for vector in embeddings(50):
        expected.commit(expected.encode({"v": vector}))
        encoder.commit(encoder.encode({"v": make(vector.tolist())}))
    probe = embeddings(1, seed=10_001)[0]
    assert (encoder.encode({"v": make(probe)}).x == expected.encode({"v": probe}).x).all()


def test_encoding_changes_nothing() -> None:
    encoder = Encoder({}, {"v": embeddings(1)[0]}, None)
    for vector in embeddings(20):
        encoder.commit(encoder.encode({"v": vector}))
    probe = {"v": embeddings(1, seed=10_001)[0]}
    first = encoder.encode(probe).x
    for _ in range(3):
        assert (encoder.encode(probe).x == first).all()


def test_bad_vectors_are_counted_and_teach_nothing() -> None:
    encoder = Encoder({}, {"v": embeddings(1)[0]}, None)
    for vector in embeddings(20):
        encoder.commit(encoder.encode({"v": vector}))
    before = {name: array.copy() for name, array in encoder.snapshot()[1].items() if "projection" in name}
    for value in ([0.5] * (WIDTH + 1), [0.5] * COMPONENTS, None, "text"):
        encoder.commit(encoder.encode({"v": value}))
    problems = encoder.schema.features["v[0]"].problems
    assert problems["unsupported"] == 2
    assert problems["missing"] == 2
    after = encoder.snapshot()[1]
    assert before
    assert all((after[name] == array).all() for name, array in before.items())


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_numbers_that_cannot_be_used_count_as_zero(bad: float) -> None:
    vector = embeddings(1)[0]
    with_zero, with_bad = vector.copy(), vector.copy()
    with_zero[7], with_bad[7] = 0, bad
    found = to_vector(with_bad)
    assert found is not None
    assert (found == with_zero).all()


def test_a_late_wide_vector_takes_free_slots_or_is_left_out() -> None:
    late = {"age": 2, "v": embeddings(1)[0]}
    encoder = Encoder({}, {"age": 1}, COMPONENTS)
    encoder.commit(encoder.encode(late))
    assert f"v[{COMPONENTS - 1}]" in encoder.schema.features
    full = Encoder({}, {"age": 1}, COMPONENTS - 1)
    full.commit(full.encode(late))
    assert full.schema.unmapped == 1
    assert list(full.schema.features) == ["age"]


@pytest.mark.parametrize("as_context", [lambda v: {"age": 3, "v": v}, lambda v: v, lambda v: v.tolist()])
def test_a_saved_bandit_and_a_replay_continue_exactly(as_context: Any, tmp_path: Path) -> None:
    vectors = embeddings(60)
    bandit = Bandit(ARMS)
    bandit.log_to(tmp_path / "log.jsonl")
    for vector in vectors[:30]:
        decision = bandit.decide(as_context(vector))
        bandit.reward(decision.id, float(vector[0] > 0))
    bandit.log_to(None)
    bandit.save(tmp_path / "bandit.glcb")
    loaded, replayed = Bandit.load(tmp_path / "bandit.glcb"), Bandit(ARMS)
    assert replayed.learn_from(tmp_path / "log.jsonl").learned == 30
    for vector in vectors[30:]:
        expected = bandit.explain(as_context(vector)).values
        assert (replayed.explain(as_context(vector)).values == expected).all()
    for vector in vectors[30:]:
        decision, same = bandit.decide(as_context(vector)), loaded.decide(as_context(vector))
        assert (decision.arm, decision.id) == (same.arm, same.id)
        assert (decision.values == same.values).all()
        for one in (bandit, loaded):
            one.reward(decision.id, float(vector[0] > 0))


def test_a_dense_array_is_one_vector_and_a_sparse_one_is_not() -> None:
    dense = embeddings(2)
    encoder = Encoder({}, dense[0], None)
    assert "vector[0]" in encoder.schema.features
    with pytest.raises(InvalidContext, match="earlier contexts had 384 values, but this one has 383"):
        encoder.encode(dense[1][:-1])
    sparse = np.zeros(WIDTH)
    sparse[::3] = 1
    assert Encoder({}, sparse, 0).width == WIDTH


def test_an_explanation_names_the_vector() -> None:
    bandit = Bandit(ARMS)
    for vector in embeddings(20):
        bandit.reward(bandit.decide({"age": 3, "v": vector}).id, 1)
    explanation = bandit.explain({"age": 3, "v": embeddings(1)[0]})
    assert set(explanation.features) == {"age", "v"}
    assert f"a vector of length {WIDTH}" in str(explanation)


def test_a_damaged_projection_is_rejected() -> None:
    bandit = Bandit(ARMS)
    for vector in embeddings(3):
        bandit.decide({"v": vector})
    snapshot = bandit._snapshot()
    (name,) = [name for name in snapshot.arrays if name.endswith("projection0.directions")]
    snapshot.arrays[name] = snapshot.arrays[name][:5]
    with pytest.raises(ValueError, match="directions must be"):
        Bandit._from_snapshot(snapshot)
