"""The state of an unfinished evaluation, as a folder that an interrupted command resumes from."""

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np

from glcb import _model_file
from glcb._arrays import Arrays
from glcb._errors import LogError, ModelFileError
from glcb._model_file import Snapshot
from glcb.evaluate.evaluation import Evaluator, EvaluatorState

_FILE, _ARRAYS, _MODEL = "state.json", "arrays.npz", ".glcb"


def save(folder: Path, evaluator: Evaluator, fingerprint: str) -> None:
    """Replace the state in ``folder``."""
    state = evaluator.snapshot()
    new = folder.with_name(folder.name + ".new")
    try:
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        arrays: Arrays = {}
        for number, part in enumerate(state.parts.values()):
            if isinstance(part, Snapshot):
                _model_file.write(new / f"{number}{_MODEL}", part)
            elif part is not None:
                arrays.update({f"{number}/{name}": array for name, array in part.items()})
        np.savez(new / _ARRAYS, **arrays)  # type: ignore[arg-type]
        about = {
            "fingerprint": fingerprint,
            "chunks": state.chunks,
            "spacing": state.spacing,
            "points": state.points,
            "parts": list(state.parts),
        }
        (new / _FILE).write_text(json.dumps(about), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        new.replace(folder)
    except OSError as error:
        raise LogError(f"cannot save progress to {folder}: {error.strerror or error}") from error


def load(folder: Path, evaluator: Evaluator, fingerprint: str) -> None:
    """Continue from a readable state of the same evaluation in ``folder``, if there is one.

    Raises
    ------
    LogError
        If the state does not fit. The evaluator must not be used.
    """
    state = _read(folder, fingerprint)
    if state is None:
        return
    try:
        evaluator.restore(state)
    except (*_model_file.INVALID, ModelFileError) as error:
        raise LogError(f"cannot continue from {folder} ({error}): remove it to begin again") from error


def _read(folder: Path, fingerprint: str) -> EvaluatorState | None:
    """Return the state in ``folder``; None if it belongs to another evaluation or cannot be read."""
    try:
        about = json.loads((folder / _FILE).read_text(encoding="utf-8"))
        if about["fingerprint"] != fingerprint:
            return None
        with np.load(folder / _ARRAYS) as stored:
            arrays = {name: stored[name] for name in stored.files}
        parts: dict[str, Arrays | Snapshot | None] = {}
        for number, name in enumerate(about["parts"]):
            model, prefix = folder / f"{number}{_MODEL}", f"{number}/"
            own = {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}
            parts[name] = _model_file.read(model) if model.exists() else own or None
        return EvaluatorState(about["chunks"], about["spacing"], about["points"], parts)
    except (OSError, *_model_file.INVALID, ModelFileError, zipfile.BadZipFile):
        return None


def remove(folder: Path) -> None:
    """Remove the state of a finished evaluation."""
    shutil.rmtree(folder, ignore_errors=True)
