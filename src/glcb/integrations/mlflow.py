"""MLflow: parameters and curves of a run, and a model flavor that ``mlflow.pyfunc`` loads."""

import json
import platform
import warnings
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from glcb import Bandit
from glcb._errors import InvalidInput, InvalidSettings, MissingExtra, install_command
from glcb._version import __version__
from glcb.bandit.encoding.values import to_contexts
from glcb.bandit.offline import OfflineBandit

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the import warns about type hints of MLflow itself
        import mlflow
        import mlflow.pyfunc
        from mlflow.models import Model, ModelSignature
        from mlflow.models.model import ModelInfo
except ModuleNotFoundError as error:
    raise MissingExtra(f"this module needs {error.name}: {install_command('mlflow')}") from error

__all__ = ["FLAVOR_NAME", "load_model", "log_curve", "log_model", "log_params", "save_model"]

FLAVOR_NAME = "glcb"
"""The name of the flavor in MLmodel files."""

_FILE = "model.glcb"
_MAX_POINTS = 1000


def log_params(bandit: Bandit) -> None:
    """Log the arguments of a bandit as parameters of the active run, and its counts as metrics.

    Parameters
    ----------
    bandit : Bandit
        The bandit. Its clock is not logged.
    """
    params = {name: value for name, value in bandit.get_params().items() if name != "clock"}
    mlflow.log_params(
        {
            name: value if isinstance(value, str) else json.dumps(value, default=str)
            for name, value in params.items()
        }
    )
    mlflow.log_metrics({f"counts.{name}": count for name, count in bandit.counts.items()})


def log_curve(rewards: Sequence[float], *, name: str = "mean_reward", points: int = 100) -> None:
    """Log the mean reward so far as a curve of the active run.

    Parameters
    ----------
    rewards : sequence of float
        The reward of each decision, in order.
    name : str, default "mean_reward"
        The name of the metric. Its step is the number of decisions.
    points : int, default 100
        Number of points, spread evenly; the last point is the mean of all rewards.

    Raises
    ------
    InvalidInput
        If there are no rewards, or one is not a finite number.
    InvalidSettings
        If `points` is not from 1 to 1000.
    """
    values = np.asarray(rewards, np.float64)
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise InvalidInput("rewards must be a list of at least one finite number")
    if not 1 <= points <= _MAX_POINTS:
        raise InvalidSettings(f"points must be from 1 to {_MAX_POINTS}, got {points!r}")
    means = np.cumsum(values) / np.arange(1, values.size + 1)
    steps = np.unique(np.ceil(np.linspace(0, values.size, points + 1))[1:].astype(int))
    for step in steps.tolist():
        mlflow.log_metric(name, float(means[step - 1]), step=step)


def save_model(
    bandit: Bandit,
    path: str | PathLike[str],
    mlflow_model: Model | None = None,
    *,
    signature: ModelSignature | None = None,
) -> None:
    """Save a bandit as an MLflow model.

    Parameters
    ----------
    bandit : Bandit
        The bandit. Its pending decisions are saved too.
    path : str or path
        The folder to create.
    mlflow_model : mlflow.models.Model, optional
        The model to add the flavor to.
    signature : mlflow.models.ModelSignature, optional
        The input and output columns of a prediction.

    Raises
    ------
    InvalidInput
        If the folder exists and is not empty.
    ModelFileError
        If the file cannot be written.
    """
    folder = Path(path)
    if folder.exists() and any(folder.iterdir()):
        raise InvalidInput(f"{folder} exists and is not empty: choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    bandit.save(folder / _FILE)
    requirements = [f"glcb=={__version__}", f"mlflow-skinny=={mlflow.__version__}", "pandas"]
    (folder / "requirements.txt").write_text("\n".join(requirements) + "\n", encoding="utf-8")
    environment = {"python": platform.python_version(), "dependencies": ["-r requirements.txt"]}
    (folder / "python_env.yaml").write_text(json.dumps(environment) + "\n", encoding="utf-8")
    model = mlflow_model or Model()
    if signature is not None:
        model.signature = signature
    mlflow.pyfunc.add_to_model(model, loader_module=__name__, data=_FILE, python_env="python_env.yaml")
    model.add_flavor(FLAVOR_NAME, glcb_version=__version__, data=_FILE)
    model.save(str(folder / "MLmodel"))


def log_model(
    bandit: Bandit,
    name: str,
    *,
    signature: ModelSignature | None = None,
    registered_model_name: str | None = None,
) -> ModelInfo:
    """Log a bandit as a model of the active run.

    Parameters
    ----------
    bandit : Bandit
        The bandit.
    name : str
        The name of the model.
    signature : mlflow.models.ModelSignature, optional
        The input and output columns of a prediction.
    registered_model_name : str, optional
        Register the model under this name.

    Returns
    -------
    mlflow.models.model.ModelInfo
        Pass its ``model_uri`` to :func:`load_model` or ``mlflow.pyfunc.load_model``.
    """
    from glcb.integrations import mlflow as flavor

    logged: ModelInfo = Model.log(
        artifact_path=None,
        name=name,
        flavor=flavor,
        registered_model_name=registered_model_name,
        bandit=bandit,
        signature=signature,
    )
    return logged


def load_model(model_uri: str) -> Bandit:
    """Load a bandit that continues where the saved one was.

    Parameters
    ----------
    model_uri : str
        The address of the model, such as ``"runs:/RUN/NAME"``, or its folder.

    Returns
    -------
    Bandit
        The bandit.

    Raises
    ------
    ModelFileError
        If the model is not a bandit of a compatible version.
    """
    folder = Path(mlflow.artifacts.download_artifacts(model_uri))
    return Bandit.load(folder / _FILE)


class _PyFunc:
    """The ``mlflow.pyfunc`` model. It does not learn: predictions of a deployed model must not change it."""

    def __init__(self, bandit: Bandit) -> None:
        self._bandit = OfflineBandit(bandit)

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Return the best arm of each row, its value, and the probability of each arm with exploration."""
        import pandas

        previews = [self._bandit.preview(context) for context in to_contexts(model_input)]
        arms = self._bandit.arms
        best = [int(np.argmax(preview.values)) for preview in previews]
        columns: dict[str, list[Any]] = {
            "arm": [arms[index] for index in best],
            "value": [float(preview.values[index]) for preview, index in zip(previews, best, strict=True)],
        }
        for position, arm in enumerate(arms):
            columns[f"probability_{arm}"] = [float(preview.probabilities[position]) for preview in previews]
        index = getattr(model_input, "index", None) if hasattr(model_input, "columns") else None
        return pandas.DataFrame(columns, index=index)


def _load_pyfunc(path: str) -> _PyFunc:
    """Load a model for ``mlflow.pyfunc``."""
    return _PyFunc(Bandit.load(path))
