"""The arms of a bandit with arm features: the catalog, and the candidates of recent requests.

Arm features have their own encoder. An arm is encoded when it is new or its features change. All arms are
encoded again when the number of arms that the encoder has seen doubles, because the scales converge, and when
an encoder slot changes hands. A decision among the catalog therefore needs no encoding.

Up to ``MAX_RECENT`` requested arms outside the catalog are kept as well, which bounds memory.
:meth:`EncodedCatalog.prepare` changes nothing;
:meth:`EncodedCatalog.commit` does.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from glcb._arrays import Arrays, Float32, check_values
from glcb._errors import InvalidContext, InvalidInput, UnknownArm
from glcb._types import Arm
from glcb.bandit.candidates import Features, arms_as_json, parse_arms
from glcb.bandit.encoding.encoder import Encoder
from glcb.bandit.encoding.origins import Origins
from glcb.bandit.encoding.schema import FeatureDeclaration, Schema, parse_schema
from glcb.bandit.encoding.structured import structure
from glcb.bandit.encoding.values import classify_value, feature_name, to_text
from glcb.bandit.logs.format import plain_context
from glcb.policies.shared import Candidates

MAX_RECENT = 10_000
"""Number of arms outside the catalog whose encoded features are kept; the least recent are dropped."""
MAX_VALUES = 64
"""Number of category values, and of tags, from the first arms that get their own slot."""
SPARE_SLOTS, SPARE_SLOTS_PER_CATEGORY = 16, 12
"""Slots for values and features of later arms."""


class CatalogEntry(NamedTuple):
    """An arm with its features as JSON, and as the encoder represents them."""

    features: Features
    row: Float32


class CandidateChanges(NamedTuple):
    """The changes made by committing candidates."""

    encoder: Encoder
    observed: int
    new: dict[Arm, Features]
    rows: dict[Arm, Float32]
    """Rows of new arms, or of all arms if scales have changed."""
    renewed: bool
    """Whether the rows cover all arms."""


class PreparedArms(NamedTuple):
    """The encoded candidates of a decision."""

    names: tuple[Arm, ...]
    candidates: Candidates
    request: dict[Arm, Features] | None
    """The candidates of the request as JSON; None if they are the catalog."""
    changes: CandidateChanges | None
    whole: bool
    """Whether the candidates are the whole catalog."""

    def position(self, arm: Arm) -> int:
        """Return the position of a candidate; raise UnknownArm if the arm is not a candidate."""
        try:
            return self.names.index(arm)
        except ValueError:
            names = ", ".join(map(repr, self.names[:8])) + (", …" if len(self.names) > 8 else "")
            raise UnknownArm(f"there is no candidate {arm!r}; the candidates are {names}") from None


class EncodedCatalog:
    """Arms with features.

    Parameters
    ----------
    arms
        The features of each arm of the catalog, as JSON. It can be empty.
    schema
        Declared features of arms, in JSON form.
    """

    def __init__(self, arms: Mapping[Arm, Features], schema: Mapping[str, Any] | None) -> None:
        self._schema = schema
        self._encoder: Encoder | None = None
        self._observed = 0
        self._arms: dict[Arm, Features] = dict(arms)
        self._rows: dict[Arm, Float32] = {}
        self._recent: OrderedDict[Arm, CatalogEntry] = OrderedDict()
        self._rewards: Counter[Arm] = Counter()
        self._whole: PreparedArms | None = None

    @property
    def names(self) -> tuple[Arm, ...]:
        """The names of the catalog."""
        return tuple(self._arms)

    @property
    def arms(self) -> Mapping[Arm, Features]:
        """The features of each arm of the catalog."""
        return self._arms

    @property
    def recent(self) -> int:
        """Number of other arms whose features are known."""
        return len(self._recent)

    @property
    def schema(self) -> Schema | None:
        """The features of arms and the problems with their values; None before the first decision."""
        return None if self._encoder is None else self._encoder.schema

    @property
    def width(self) -> int:
        """Number of features of an encoded arm."""
        assert self._encoder is not None  # a decision has been made
        return self._encoder.width

    # ---- candidates -----------------------------------------------------------------------------

    def prepare(self, request: Any, eligible: Iterable[Arm] | None) -> PreparedArms:
        """Return the encoded candidates of a request, or the catalog if it is None. Changes nothing.

        `eligible` restricts the candidates in both cases.
        """
        prepared = self._prepare_catalog() if request is None else self._prepare_request(parse_arms(request))
        return prepared if eligible is None else _restrict(prepared, eligible)

    def _prepare_catalog(self) -> PreparedArms:
        if not self._arms:
            raise InvalidInput("the bandit has no arms: pass the candidates of the request as arms=")
        if self._whole is None:
            new = {name: features for name, features in self._arms.items() if name not in self._rows}
            changes = self._admit(new) if new else None
            rows = {**self._rows, **(changes.rows if changes else {})}
            candidates = Candidates(np.stack([rows[name] for name in self._arms]))
            prepared = PreparedArms(self.names, candidates, None, changes, whole=True)
            if changes is not None:
                return prepared
            self._whole = prepared
        return self._whole

    def _prepare_request(self, request: dict[Arm, Mapping[Any, Any]]) -> PreparedArms:
        plain: dict[Arm, Features] = {}
        new: dict[Arm, Features] = {}
        for name, features in request.items():
            known = self._known(name)
            if known is not None and _is_equal(known, features):
                plain[name] = known
            else:
                plain[name] = _plain_features(name, features)
            if plain[name] != known or (name not in self._recent and name not in self._rows):
                new[name] = plain[name]
        changes = self._admit(new) if new else None
        changed = changes.rows if changes else {}
        rows = [changed[name] if name in changed else self._row(name) for name in plain]
        names = tuple(plain)
        return PreparedArms(names, Candidates(np.stack(rows)), plain, changes, whole=False)

    def _known(self, name: Arm) -> Features | None:
        """Return the last known features of an arm."""
        entry = self._recent.get(name)
        return self._arms.get(name) if entry is None else entry.features

    def _row(self, name: Arm) -> Float32:
        entry = self._recent.get(name)
        return self._rows[name] if entry is None else entry.row

    def _admit(self, new: dict[Arm, Features]) -> CandidateChanges:
        """Return the changes for arms that are new or have other features; rows are encoded after all."""
        encoder = self._make_encoder(new.values()) if self._encoder is None else _copy(self._encoder)
        observed = self._observed + len(new)
        renewed = observed.bit_length() > self._observed.bit_length()
        for name, features in new.items():
            try:
                encoded = encoder.encode(features)
            except InvalidContext as error:
                raise InvalidInput(f"the features of the arm {name!r} are invalid: {error}") from None
            renewed = encoder.alters_others(encoded) or renewed
            encoder.commit(encoded)
        known = {**{n: self._arms[n] for n in self._rows}, **{n: e.features for n, e in self._recent.items()}}
        changed = {**known, **new} if renewed else new
        rows = {name: encoder.encode(features).x for name, features in changed.items()}
        return CandidateChanges(encoder, observed, new, rows, renewed)

    def _make_encoder(self, arms: Iterable[Features]) -> Encoder:
        """Return an encoder with slots for the features and values of the first arms."""
        declarations = parse_schema(self._schema)
        first: Features = {}
        values: dict[str, dict[str, None]] = {}
        tags: set[str] = set()
        for features in arms:
            for key, value in features.items():
                name = feature_name(key)
                if first.get(name) is None:
                    first[name] = value
                if structure(value) == "tags":
                    tags.update(value)
                kind, plain = classify_value(value)
                if kind == "text":
                    values.setdefault(name, {})[to_text(kind, plain)] = None
        categories = [name for name in values if classify_value(first[name])[0] == "text"]
        for name in categories:
            if name not in declarations:
                declarations[name] = FeatureDeclaration("category", values=tuple(values[name])[:MAX_VALUES])
        spare = SPARE_SLOTS + SPARE_SLOTS_PER_CATEGORY * len(categories) + min(len(tags), MAX_VALUES)
        return Encoder(declarations, first, spare)

    def commit(self, prepared: PreparedArms) -> None:
        """Keep what was learned about the candidates of a decision."""
        changes = prepared.changes
        if changes is not None:
            self._encoder, self._observed = changes.encoder, changes.observed
            if changes.renewed:
                self._whole = None
                for name in self._rows:
                    self._rows[name] = changes.rows[name]
                for name, entry in self._recent.items():
                    self._recent[name] = entry._replace(row=changes.rows[name])
            for name, features in changes.new.items():
                if prepared.request is None:
                    self._rows[name] = changes.rows[name]
                else:
                    self._recent[name] = CatalogEntry(features, changes.rows[name])
        if prepared.request is not None:
            for name in prepared.request:
                if name in self._recent:
                    self._recent.move_to_end(name)
            while len(self._recent) > MAX_RECENT:
                dropped, _ = self._recent.popitem(last=False)
                if dropped not in self._arms:
                    self._rewards.pop(dropped, None)
        elif prepared.whole:
            self._whole = prepared._replace(changes=None)

    def origins(self, prepared: PreparedArms, index: int) -> Origins:
        """Return the feature that each slot of an encoded candidate belongs to."""
        name = prepared.names[index]
        features = self._arms[name] if prepared.request is None else prepared.request[name]
        encoder = self._encoder if prepared.changes is None else prepared.changes.encoder
        assert encoder is not None  # the candidates have been encoded
        return encoder.origins(features, encoder.encode(features))

    # ---- arms -----------------------------------------------------------------------------------

    @property
    def reward_counts(self) -> dict[Arm, int]:
        """Number of rewards learned, for each arm of the catalog and of recent requests."""
        return {name: self._rewards[name] for name in dict.fromkeys((*self._arms, *self._recent))}

    def count_reward(self, arm: Arm) -> None:
        """Count a reward of an arm, unless its name has been forgotten."""
        if arm in self._arms or arm in self._recent:
            self._rewards[arm] += 1

    def set_arms(self, arms: Mapping[Arm, Features]) -> None:
        """Replace the catalog. Arms whose features have not changed keep their rows."""
        kept = {name for name, features in arms.items() if self._arms.get(name) == features}
        self._rows = {name: row for name, row in self._rows.items() if name in kept}
        self._arms = dict(arms)
        for name in arms:
            self._recent.pop(name, None)
        for name in [name for name in self._rewards if name not in arms and name not in self._recent]:
            del self._rewards[name]
        self._whole = None

    # ---- saving ---------------------------------------------------------------------------------

    def snapshot(self) -> tuple[dict[str, Any], Arrays]:
        """Return everything but the arms of the catalog, which are arguments of the bandit."""
        metadata: dict[str, Any] = {
            "observed": self._observed,
            "encoded": list(self._rows),
            "recent": arms_as_json({name: entry.features for name, entry in self._recent.items()}),
            "rewards": [[name, count] for name, count in self._rewards.items()],
            "encoder": None,
        }
        if self._encoder is None:
            return metadata, {}
        metadata["encoder"], arrays = self._encoder.snapshot()
        rows = [*self._rows.values(), *(entry.row for entry in self._recent.values())]
        stacked = np.array(rows, np.float32).reshape(-1, self.width)
        return metadata, {**{f"encoder.{name}": array for name, array in arrays.items()}, "rows": stacked}

    def restore(self, metadata: dict[str, Any], arrays: Arrays) -> None:
        """Restore a snapshot; raise ValueError, TypeError or KeyError if it is invalid."""
        own = {name.removeprefix("encoder."): array for name, array in arrays.items() if name != "rows"}
        self._encoder = Encoder.from_snapshot(metadata["encoder"], own)
        encoded = [to_name(name) for name in metadata["encoded"]]
        recent = parse_arms(metadata["recent"]) if metadata["recent"] else {}
        rows, count = check_values("rows", arrays["rows"]), len(encoded) + len(recent)
        if rows.dtype != np.float32 or rows.shape != (count, self.width):
            raise ValueError(f"rows must be float32 {(count, self.width)}, got {rows.dtype} {rows.shape}")
        if rows.size and not 0 <= rows.min() <= rows.max() <= 1:
            raise ValueError("rows must be from 0 to 1")
        if not set(encoded) <= self._arms.keys():
            raise ValueError("an encoded arm is not in the catalog")
        self._observed = int(metadata["observed"])
        self._rewards = Counter({to_name(name): int(count) for name, count in metadata["rewards"]})
        self._rows = {name: row.copy() for name, row in zip(encoded, rows, strict=False)}
        self._recent = OrderedDict(
            (name, CatalogEntry(dict(features), row.copy()))
            for (name, features), row in zip(recent.items(), rows[len(encoded) :], strict=True)
        )


def plain_arms(arms: Any) -> dict[Arm, Features]:
    """Return arms with features as JSON can represent them; raise InvalidInput if one is invalid."""
    if isinstance(arms, Mapping) and not arms:
        return {}
    return {name: _plain_features(name, features) for name, features in parse_arms(arms).items()}


def _plain_features(name: Arm, features: Mapping[Any, Any]) -> Features:
    try:
        for key in features:
            feature_name(key)
        plain = plain_context(features)
    except InvalidContext as error:
        raise InvalidInput(f"the features of the arm {name!r} are invalid: {error}") from None
    assert isinstance(plain, dict)  # the features are a mapping
    return plain


def _is_equal(known: Features, features: Mapping[Any, Any]) -> bool:
    try:
        return bool(known == features)
    except ValueError:  # an array has no single truth value
        return False


def _restrict(prepared: PreparedArms, eligible: Iterable[Arm]) -> PreparedArms:
    if isinstance(eligible, str) or not isinstance(eligible, Iterable):
        raise UnknownArm(f"eligible must be a list of arms, got {eligible!r}")
    positions = {name: position for position, name in enumerate(prepared.names)}
    chosen = []
    for name in eligible:
        if isinstance(name, bool | float) or name not in positions:
            prepared.position(name)
        chosen.append(positions[name])
    if not chosen:
        raise UnknownArm("eligible must have at least one arm, got none; omit it to allow all candidates")
    rows = sorted(set(chosen))
    return prepared._replace(
        names=tuple(prepared.names[row] for row in rows),
        candidates=prepared.candidates.take(rows),
        whole=False,
    )


def _copy(encoder: Encoder) -> Encoder:
    metadata, arrays = encoder.snapshot()
    return Encoder.from_snapshot(metadata, arrays)


def to_name(name: Any) -> Arm:
    """Parse an arm name in a snapshot; raise TypeError if it is invalid."""
    if isinstance(name, bool) or not isinstance(name, str | int):
        raise TypeError(f"the name of an arm must be a string or an integer, got {name!r}")
    return name
