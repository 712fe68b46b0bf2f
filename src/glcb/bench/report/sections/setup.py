"""Setup of the benchmark: seeds, policies and their settings, environments, failures."""

import inspect
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from glcb._document.document import Block, Group, Listing, Row, Section, Table, TableCell
from glcb._errors import InvalidInput, InvalidSettings
from glcb._types import Rewards
from glcb.bench import paper
from glcb.bench.report.formatting import count
from glcb.bench.report.selection import SelectedPolicy, Selection
from glcb.bench.results import FAILURES
from glcb.bench.run import RunRecord
from glcb.policies import registry
from glcb.policies.glcb.policy import GLCB
from glcb.policies.glcb.settings import Settings

_COMMON_ARGUMENTS = {"arms", "features", "rewards", "seed"}
_REWARD_KINDS: tuple[tuple[Rewards, str], ...] = (
    ("binary", "binary rewards"),
    ((0.0, 1.0), "bounded rewards"),
)


def section(selection: Selection, order: Sequence[SelectedPolicy], failed: Sequence[str]) -> Section:
    """List everything needed to reproduce the results."""
    blocks: list[Block] = [_seed_table(selection, order), _policy_table(selection, order)]
    hyperparameters = hyperparameter_table(selection, order)
    if hyperparameters:
        blocks.append(hyperparameters)
    blocks += ["Environments of the runs:", Listing(_environments(selection))]
    if selection.excluded:
        blocks += ["Records in the folder that are not part of this report:", Listing(selection.excluded)]
    if failed:
        blocks += [f"{count(len(failed), 'run')} failed:", Listing(tuple(failed))]
    blocks.append(f"The paper's numbers are from {paper.SOURCE}.")
    return Section("setup", "Seeds, settings and versions", tuple(blocks))


def failures(folder: Path, selection: Selection) -> list[str]:
    """Describe the runs that failed and have not succeeded since."""
    path = folder / FAILURES
    if not path.is_file():
        return []
    finished = {
        (record.task, record.policy, record.seed, record.steps, json.dumps(record.settings, sort_keys=True))
        for records in selection.cells.values()
        for record in records
    }
    descriptions: dict[tuple[object, ...], str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            failure = json.loads(line)
            run = tuple(failure[name] for name in ("task", "policy", "seed", "steps"))
            key = (*run, json.dumps(failure["settings"], sort_keys=True))
            descriptions[key] = (
                f"{failure['task']}, {failure['policy']}, seed {failure['seed']}: {failure['error']}"
            )
        except (ValueError, KeyError, TypeError):
            continue  # an incomplete line: its writer was killed
    return [description for key, description in descriptions.items() if key not in finished]


def format_settings(record: RunRecord) -> str:
    """Return the settings of the record's policy; GLCB's settings are in a separate table."""
    try:
        entry = registry.get(record.policy)
    except InvalidInput:
        return _listed(record.settings)
    if entry.version != record.version:
        return ", ".join(filter(None, [_listed(record.settings), f"those of version {record.version}"]))
    if issubclass(entry.policy_class, GLCB):
        return "see below"
    return _listed(_defaults(entry.policy_class) | record.settings) or "none"


def hyperparameter_table(selection: Selection, order: Sequence[SelectedPolicy]) -> Table | None:
    """Return the hyperparameters of all GLCB variants that ran in their current version."""
    variants: list[tuple[str, Settings]] = []
    for entry in order:
        variants += _glcb_settings(entry, selection.first(entry))
    if not variants:
        return None
    columns = [{name: _shown(value) for name, value in asdict(settings).items()} for _, settings in variants]
    rows = [
        Row(TableCell(name.replace("_", " ")), tuple(TableCell(column[name]) for column in columns))
        for name in columns[0]
    ]
    return Table(
        "Hyperparameters of GLCB by kind of reward.",
        ("hyperparameter", *(title for title, _ in variants)),
        (Group("", tuple(rows)),),
    )


def _seed_table(selection: Selection, order: Sequence[SelectedPolicy]) -> Table:
    rows = [
        Row(
            TableCell(entry.title),
            tuple(
                TableCell(f"{len(records):,}")
                if (records := selection.cells.get((column, entry)))
                else TableCell()
                for column in selection.columns
            ),
        )
        for entry in order
    ]
    steps = Row(
        TableCell("Steps per run"), tuple(TableCell(f"{column.steps:,}") for column in selection.columns)
    )
    return selection.oriented(
        Table(
            "Number of seeds, and steps of each run.",
            ("policy", *(selection.title(column) for column in selection.columns)),
            (Group("", tuple(rows)), Group("", (steps,))),
        )
    )


def _policy_table(selection: Selection, order: Sequence[SelectedPolicy]) -> Table:
    rows = []
    for entry in order:
        record = selection.first(entry)
        description, source = _description(entry.policy)
        cells = (
            TableCell(entry.policy),
            TableCell(format_settings(record)),
            TableCell(str(record.version)),
            TableCell(description),
            TableCell(source),
        )
        rows.append(Row(TableCell(entry.title), cells))
    return Table(
        "Policies. The version increases when a change alters the decisions of a policy.",
        ("policy", "name", "settings", "version", "description", "source"),
        (Group("", tuple(rows)),),
        textual=True,
    )


def _description(policy: str) -> tuple[str, str]:
    try:
        entry = registry.get(policy)
    except InvalidSettings:
        return "not available in this version of glcb", ""
    return entry.summary, entry.source


def _environments(selection: Selection) -> tuple[str, ...]:
    runs = Counter(record.environment for records in selection.cells.values() for record in records)
    return tuple(f"{environment} ({count(amount, 'run')})" for environment, amount in runs.most_common())


def _listed(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {_shown(value)}" for name, value in settings.items())


def _defaults(policy: type) -> dict[str, Any]:
    """Return the default settings of a policy and its base classes; None means disabled and is omitted."""
    return {
        parameter.name: parameter.default
        for cls in policy.__mro__
        if "__init__" in vars(cls)
        for parameter in inspect.signature(vars(cls)["__init__"]).parameters.values()
        if parameter.default not in (parameter.empty, None) and parameter.name not in _COMMON_ARGUMENTS
    }


def _glcb_settings(entry: SelectedPolicy, record: RunRecord) -> list[tuple[str, Settings]]:
    try:
        registered = registry.get(entry.policy)
        if not issubclass(registered.policy_class, GLCB) or registered.version != record.version:
            return []
        return [
            (
                f"{entry.title}: {kind}",
                registered.policy_class(2, 1, rewards=rewards, **record.settings).settings,
            )
            for rewards, kind in _REWARD_KINDS
        ]
    except InvalidInput:
        return []


def _shown(value: object) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
