"""Runs and models in MLflow, read back with its own client and with ``mlflow.pyfunc``."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import Bandit, InvalidInput, InvalidSettings, ModelFileError
from tests.support.bandits import FAST, full_state, run

pytest.importorskip("mlflow")

import mlflow
import pandas as pd

from glcb.integrations import mlflow as flavor

VISITORS = pd.DataFrame(
    {"age": [31, 45], "spent": [3.0, 50.0], "country": ["FR", "DE"], "member": [True, False]},
    index=["a", "b"],
)


@pytest.fixture
def trained() -> Bandit:
    return run(Bandit(["sports", "news"], **FAST), 50)


@pytest.fixture
def tracking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())


@pytest.mark.usefixtures("tracking")
def test_a_run_has_parameters_counts_and_a_curve(trained: Bandit) -> None:
    with mlflow.start_run() as active:
        flavor.log_params(trained)
        flavor.log_curve([0, 1, 1, 0, 1, 1, 0], points=3)
    data = mlflow.get_run(active.info.run_id).data
    assert data.params["policy"] == "linucb"
    assert json.loads(data.params["arms"]) == ["sports", "news"]
    assert "clock" not in data.params
    assert data.metrics["counts.decisions"] == 50
    history = mlflow.MlflowClient().get_metric_history(active.info.run_id, "mean_reward")
    assert [(point.step, point.value) for point in history] == [(3, 2 / 3), (5, 3 / 5), (7, 4 / 7)]


@pytest.mark.usefixtures("tracking")
def test_a_logged_model_loads_as_a_function_and_as_a_bandit(trained: Bandit) -> None:
    with mlflow.start_run():
        info = flavor.log_model(trained, "bandit")
    before = full_state(trained)
    model = mlflow.pyfunc.load_model(info.model_uri)
    predicted = model.predict(VISITORS)
    assert list(predicted.columns) == ["arm", "value", "probability_sports", "probability_news"]
    assert list(predicted.index) == ["a", "b"]
    assert model.predict(VISITORS).equals(predicted)
    assert model.predict(VISITORS.to_dict("records")).equals(predicted.reset_index(drop=True))
    assert full_state(flavor.load_model(info.model_uri)) == before
    for number, row in enumerate(predicted.itertuples()):
        decision = flavor.load_model(info.model_uri).decide(VISITORS.iloc[number])
        assert row.value == decision.values.max()
        assert row.arm == decision.arms[int(np.argmax(decision.values))]
        assert [row.probability_sports, row.probability_news] == decision.arm_probabilities.tolist()


def test_a_model_is_a_folder_that_says_what_it_needs(trained: Bandit, tmp_path: Path) -> None:
    flavor.save_model(trained, tmp_path / "model")
    assert "glcb==" in (tmp_path / "model" / "requirements.txt").read_text()
    assert set(mlflow.models.Model.load(str(tmp_path / "model")).flavors) == {"glcb", "python_function"}
    assert len(mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(VISITORS)) == 2
    with pytest.raises(InvalidInput, match="not empty"):
        flavor.save_model(trained, tmp_path / "model")


def test_a_damaged_model_is_refused(trained: Bandit, tmp_path: Path) -> None:
    flavor.save_model(trained, tmp_path / "model")
    (tmp_path / "model" / "model.glcb").write_bytes(b"damaged")
    with pytest.raises(ModelFileError):
        flavor.load_model(str(tmp_path / "model"))


def test_arms_with_features_are_predicted(tmp_path: Path) -> None:
    flavor.save_model(Bandit({"m1": {"genre": "noir"}, "m2": {}}, **FAST), tmp_path / "model")
    assert flavor.load_model(str(tmp_path / "model")).decide({"age": 31}).arm in ("m1", "m2")
    predicted = mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(VISITORS)
    assert set(predicted["arm"]) <= {"m1", "m2"}


@pytest.mark.parametrize("rewards", [[], [1.0, float("nan")], [[1.0], [0.0]]])
def test_curves_of_other_things_than_numbers_are_refused(rewards: Any) -> None:
    with pytest.raises(InvalidInput, match="finite number"):
        flavor.log_curve(rewards)
    with pytest.raises(InvalidSettings, match="points"):
        flavor.log_curve([1.0], points=0)
