"""Snapshots of encoders in the formats of earlier versions of model files."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from glcb._arrays import Arrays
from glcb.bandit.encoding.schema import Declaration


def upgrade(
    metadata: dict[str, Any], arrays: Arrays, declarations: Mapping[str, Declaration]
) -> tuple[dict[str, Any], Arrays]:
    """Return a snapshot in the current format.

    Up to format 3, slots never changed hands: neither their uses nor candidates for them were counted, and
    features did not know what was declared about them.
    """
    if "candidates" in metadata:
        return metadata, arrays
    reserved, width, _ = metadata["slots"]
    features = []
    for feature in metadata["features"]:
        declaration = declarations.get(feature["name"])
        declared = None if declaration is None else declaration.as_json()
        features.append({**feature, "declaration": declared, "votes": {}})
    changed = {"slots": [reserved, width], "contexts": 0, "candidates": [], "features": features}
    return {**metadata, **changed}, {**arrays, "uses": np.zeros(width, np.int64)}
