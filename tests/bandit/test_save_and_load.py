"""Saving, loading, copying and pickling; parameters and representations."""

import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import GLCB, Bandit, InvalidSettings, ModelFileError, _model_file, _validation
from glcb.policies import registry
from tests.support.bandits import ARMS, FAST, full_state, run

SCHEMA = {"age": (0, 120), "country": ["FR", "DE"], "spent": "number", "member": "boolean"}


@pytest.mark.parametrize("name", registry.names())
def test_every_policy_continues_bit_for_bit(name: str, tmp_path: Path) -> None:
    original = run(Bandit(ARMS, policy=name), 70)
    original.save(tmp_path / "bandit")
    loaded = Bandit.load(tmp_path / "bandit")
    assert full_state(loaded) == full_state(original)
    assert repr(loaded) == repr(original)
    assert repr(loaded.schema) == repr(original.schema)
    assert full_state(run(loaded, 70, seed=1)) == full_state(run(original, 70, seed=1))


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"schema": SCHEMA, "spare_slots": 5},
        {"rewards": (0.0, 1.0), "exploration": 0.2, "exploration_mode": "uniform", "seed": 9},
        {"policy_settings": {"alpha": 0.1}, "max_pending": 7},
    ],
    ids=str,
)
def test_all_arguments_are_saved(arguments: dict[str, Any], tmp_path: Path) -> None:
    for steps in (0, 40):
        original = run(Bandit(ARMS, **FAST, **arguments), steps)
        original.save(tmp_path / "bandit")
        loaded = Bandit.load(tmp_path / "bandit")
        assert full_state(loaded) == full_state(original)
        assert repr(loaded) == repr(original)
        assert full_state(run(loaded, 40, seed=1)) == full_state(run(original, 40, seed=1))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda bandit: pickle.loads(pickle.dumps(bandit))])
def test_copies_are_independent(duplicate: Any) -> None:
    original = run(Bandit(ARMS, **FAST), 50)
    twin = duplicate(original)
    before = full_state(original)
    run(twin, 30, seed=1)
    assert full_state(original) == before
    assert full_state(run(original, 30, seed=1)) == full_state(twin)


def test_pending_decisions_and_changed_arms_are_saved(tmp_path: Path) -> None:
    bandit = run(Bandit(ARMS, **FAST), 20)
    bandit.add_arm("weather", like="news")
    pending = [bandit.decide({"age": i, "country": "FR"}) for i in range(10)]
    bandit.remove_arm("sports")
    bandit.save(tmp_path / "bandit")
    loaded = Bandit.load(tmp_path / "bandit")
    assert loaded.arms == ("news", "games", "weather")
    assert loaded.counts == bandit.counts
    for decision in pending:
        if decision.arm != "sports":
            loaded.reward(decision.id, 1)
            bandit.reward(decision.id, 1)
    assert full_state(loaded) == full_state(bandit)


def test_names_with_invalid_unicode_are_saved(tmp_path: Path) -> None:
    bandit = Bandit(ARMS, **FAST)
    bandit.decide({"\ud800": "\udfff", "name": "Zoë 🎈"})
    bandit.save(tmp_path / "bandit")
    assert full_state(Bandit.load(tmp_path / "bandit")) == full_state(bandit)


def test_arms_with_invalid_unicode_are_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_validation, "is_unicode", lambda text: True)
    Bandit(["a", "Stra\udcdfe"], **FAST).save(tmp_path / "bandit")
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match=r"the name of an arm must be valid Unicode.*got 'Stra\\udcdfe'"):
        Bandit.load(tmp_path / "bandit")


def test_loading_another_class_names_the_right_one(tmp_path: Path) -> None:
    GLCB(2, 1).save(tmp_path / "policy")
    Bandit(2, **FAST).save(tmp_path / "bandit")
    with pytest.raises(ModelFileError, match=r"holds a GLCB, not a Bandit: load it with GLCB\.load"):
        Bandit.load(tmp_path / "policy")
    with pytest.raises(ModelFileError, match=r"holds a Bandit, not a GLCB: load it with Bandit\.load"):
        GLCB.load(tmp_path / "bandit")


def test_numbers_of_contexts_are_not_in_the_header() -> None:
    # Numbers are stored encoded; only feature names and categories are readable.
    bandit = Bandit(ARMS, **FAST)
    bandit.decide({"secret": 123456.75})
    header = json.dumps(bandit._snapshot().about)
    assert "123456" not in header


def _changed(bandit: Bandit, path: tuple[Any, ...], value: object) -> _model_file.Snapshot:
    snapshot = copy.deepcopy(bandit._snapshot())
    place: Any = snapshot.about
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return snapshot


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("pending", "decisions"), 3),
        (("pending", "rewarded"), 10**6),
        (("pending", "rewarded"), "many"),
        (("encoder", "slots"), [1, 1, 1]),
        (("encoder", "features"), []),
        (("policy", "arguments", "arms"), ["a", "b"]),
        (("policy", "arguments", "features"), 3),
        (("policy", "generator"), {}),
        (("policy",), None),
        (("running",), 1),
    ],
    ids=str,
)
def test_an_inconsistent_file_is_refused(path: tuple[Any, ...], value: object, tmp_path: Path) -> None:
    bandit = run(Bandit(ARMS, **FAST), 30)
    snapshot = _changed(bandit, path, value)
    if path == ("running",):
        snapshot.arrays.clear()
    _model_file.write(tmp_path / "bandit", snapshot)
    with pytest.raises(ModelFileError, match="not a complete Bandit"):
        Bandit.load(tmp_path / "bandit")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pending.contexts", 2),
        ("pending.contexts", np.nan),
        ("pending.arms", 3),
        ("pending.arms", -1),
        ("pending.propensities", 1.5),
        ("pending.ids", 7),
        ("pending.settled_outcomes", 5),
        ("encoder.samples", np.inf),
        ("policy.inverses", np.nan),
        ("policy.reward_counts", -1),
        ("policy.updates", -1),
    ],
)
def test_invalid_numbers_are_refused(name: str, value: float, tmp_path: Path) -> None:
    snapshot = run(Bandit(ARMS, **FAST), 30, rewarded=0.5)._snapshot()
    snapshot.arrays[name] = np.full_like(snapshot.arrays[name], value)
    _model_file.write(tmp_path / "bandit", snapshot)
    with pytest.raises(ModelFileError, match="not a complete Bandit"):
        Bandit.load(tmp_path / "bandit")


@pytest.mark.parametrize(
    "name", ["pending.ids", "pending.contexts", "encoder.counts", "policy.reward_counts"]
)
def test_arrays_of_the_wrong_size_are_refused(name: str, tmp_path: Path) -> None:
    snapshot = run(Bandit(ARMS, **FAST), 30, rewarded=0.5)._snapshot()
    snapshot.arrays[name] = snapshot.arrays[name][:-1]
    _model_file.write(tmp_path / "bandit", snapshot)
    with pytest.raises(ModelFileError, match="not a complete Bandit"):
        Bandit.load(tmp_path / "bandit")


# ---- parameters, as in scikit-learn------------------------------------------------------------------


def cloned(bandit: Bandit) -> Bandit:
    """Clone a bandit like ``sklearn.base.clone``."""
    parameters = {name: copy.deepcopy(value) for name, value in bandit.get_params(deep=False).items()}
    twin = type(bandit)(**parameters)
    for name, value in twin.get_params(deep=False).items():
        assert value is parameters[name], name
    return twin


def test_a_clone_is_untrained_and_has_the_same_parameters() -> None:
    bandit = Bandit(
        ["a", "b"], schema={"age": (0, 1)}, policy_settings={"alpha": 0.5}, exploration=0.1, **FAST
    )
    assert full_state(cloned(bandit)) == full_state(bandit)
    run(bandit, 10)
    twin = cloned(bandit)
    assert twin.schema is None
    assert twin.counts["decisions"] == 0
    bandit.add_arm("c")
    assert cloned(bandit).arms == ("a", "b", "c")


def test_arms_can_be_an_iterator() -> None:
    once: Any = (arm for arm in "xy")
    bandit = Bandit(once, **FAST).set_params(exploration=0.1)
    assert bandit.arms == ("x", "y")
    assert cloned(bandit).arms == ("x", "y")
    run(bandit, 5)
    assert bandit.set_params(exploration=0.2).arms == ("x", "y")


def test_setting_parameters_keeps_the_lock() -> None:
    bandit = Bandit(ARMS, **FAST)
    lock = bandit._lock
    assert bandit.set_params(seed=3)._lock is lock


def test_parameters_can_be_set() -> None:
    bandit = Bandit(ARMS, **FAST)
    assert bandit.set_params(arms=["a", "b"], exploration=0.2, seed=3) is bandit
    assert bandit.arms == ("a", "b")
    assert full_state(bandit) == full_state(Bandit(["a", "b"], exploration=0.2, seed=3, **FAST))
    run(bandit, 20)
    reward_counts = bandit.reward_counts
    bandit.set_params(exploration=0.0, exploration_mode="uniform")
    assert bandit.get_params()["exploration"] == 0.0
    assert bandit.reward_counts == reward_counts
    assert bandit.decide({"age": 5}).propensity in (0.5, 1)
    before = full_state(bandit)
    for name, value in {"arms": 3, "policy": "glcb", "seed": 1, "spare_slots": 3}.items():
        with pytest.raises(InvalidSettings, match="cannot change after the first decision"):
            bandit.set_params(**{name: value})
    with pytest.raises(InvalidSettings, match="no parameter 'weather'"):
        bandit.set_params(weather=1)
    with pytest.raises(InvalidSettings, match="exploration"):
        bandit.set_params(exploration=2)
    assert full_state(bandit) == before


# ---- representations --------------------------------------------------------------------------------


def test_the_repr_of_a_bandit() -> None:
    assert repr(Bandit(ARMS)) == (
        "Bandit(arms=['sports', 'news', 'games'], policy='glcb', rewards='binary', exploration=0.05, "
        "seed=0; 0 decisions)"
    )
    assert "arms=[0, 1, 2, '…']" in repr(Bandit(50, **FAST))
    assert "max_pending=7" in repr(Bandit(2, max_pending=7))
    bandit = Bandit(2, max_pending=1, **FAST)
    for _ in range(3):
        decision = bandit.decide([1.0])
    bandit.reward(decision.id, 1)
    assert repr(bandit).endswith("; 3 decisions: 1 rewarded, 2 evicted)")


def test_the_html_in_notebooks_escapes_names() -> None:
    bandit = Bandit(["<b>bold</b>", "news"], **FAST)
    assert "&lt;b&gt;bold" in bandit._repr_html_()
    bandit.decide({"<script>": "<img>", "age": 3})
    page = bandit._repr_html_()
    for expected in (
        "<table>",
        "&lt;script&gt;",
        "&lt;img&gt;",
        "number, from 3 to 3",
        "1 decision: 1 pending",
    ):
        assert expected in page
    assert "<script>" not in page
    assert "and 25 more" in Bandit(75, **FAST)._repr_html_()


def test_every_kernel_is_compiled_for_one_signature() -> None:
    program = """
import pickle
import subprocess
import sys
from glcb import Bandit
from glcb.bandit.encoding import scaling
from glcb.explore import probabilities
bandit = Bandit(3, policy="uniform", schema={"hour": (0, 24)}, exploration=0)
for context in ({"age": 1, "hour": 3}, {"age": 2.5, "hour": 3, "new": 4}, {"age": None}, {"a": "b"}):
    bandit.reward(bandit.decide(context).id, 1)
    bandit.decide(context, eligible=[0, 2])
    bandit = pickle.loads(pickle.dumps(bandit))
bandit.set_params(exploration=1 / 2, exploration_mode="uniform").decide({"age": 7})
for kernel in (scaling.place_numbers, scaling.observe_numbers, probabilities.choose_arm):
    assert len(kernel.signatures) == 1, kernel
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_bandit_that_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    bandit = run(Bandit(ARMS, **FAST), 20)
    bandit.save(tmp_path / "bandit")
    before = (tmp_path / "bandit").read_bytes()
    bandit._core.pending.decisions -= 15
    with pytest.raises(ModelFileError, match=r"the bandit could not be loaded from it \(.*are not counts"):
        bandit.save(tmp_path / "bandit")
    assert (tmp_path / "bandit").read_bytes() == before
