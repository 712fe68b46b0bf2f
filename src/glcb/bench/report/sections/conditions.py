"""What was run, with what, and on what; what failed; what was left out."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from glcb._errors import InvalidSettings
from glcb.bench import paper
from glcb.bench.report.document import Block, Cell, Group, Listing, Row, Section, Table
from glcb.bench.report.numbers import count
from glcb.bench.report.sections import settings
from glcb.bench.report.selection import Player, Selection
from glcb.bench.results import FAILURES
from glcb.policies import registry


def section(selection: Selection, order: Sequence[Player], failed: Sequence[str]) -> Section:
    """Say all that somebody needs who wants to do it again."""
    blocks: list[Block] = [_seeds(selection, order), _policies(selection, order)]
    hyper_parameters = settings.hyper_parameters(selection, order)
    if hyper_parameters:
        blocks.append(hyper_parameters)
    blocks += ["Runs were made on:", Listing(_environments(selection))]
    if selection.left_out:
        blocks += ["In the folder, but left out of this report:", Listing(selection.left_out)]
    if failed:
        blocks += [f"{count(len(failed), 'run')} failed and could not be counted:", Listing(tuple(failed))]
    blocks.append(f"The authors' numbers are from {paper.SOURCE}.")
    return Section("conditions", "Seeds, settings, versions", tuple(blocks))


def failures(folder: Path, selection: Selection) -> list[str]:
    """Return in words which runs failed and were not made good since."""
    path = folder / FAILURES
    if not path.is_file():
        return []
    done = {
        (record.task, record.policy, record.seed, record.steps, json.dumps(record.settings, sort_keys=True))
        for records in selection.cells.values()
        for record in records
    }
    described: dict[tuple[object, ...], str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            failure = json.loads(line)
            run = tuple(failure[name] for name in ("task", "policy", "seed", "steps"))
            key = (*run, json.dumps(failure["settings"], sort_keys=True))
            described[key] = (
                f"{failure['task']}, {failure['policy']}, seed {failure['seed']}: {failure['error']}"
            )
        except (ValueError, KeyError, TypeError):
            continue  # a torn line: its writer died while it told of a failure
    return [words for key, words in described.items() if key not in done]


def _policies(selection: Selection, order: Sequence[Player]) -> Table:
    rows = []
    for player in order:
        record = selection.first(player)
        line, source = _known(player.policy)
        cells = (
            Cell(player.policy),
            Cell(settings.in_words(record)),
            Cell(str(record.version)),
            Cell(line),
            Cell(source),
        )
        rows.append(Row(Cell(player.title), cells))
    return Table(
        "The policies. The version grows whenever a policy would decide differently.",
        ("policy", "short name", "settings", "version", "what it does", "source"),
        (Group("", tuple(rows)),),
        words=True,
    )


def _known(policy: str) -> tuple[str, str]:
    try:
        entry = registry.get(policy)
    except InvalidSettings:
        return "not known to this version of glcb", ""
    return entry.line, entry.source


def _seeds(selection: Selection, order: Sequence[Player]) -> Table:
    rows = [
        Row(
            Cell(player.title),
            tuple(
                Cell(f"{len(records):,}") if (records := selection.cells.get((column, player))) else Cell()
                for column in selection.columns
            ),
        )
        for player in order
    ]
    steps = Row(Cell("Steps of a run"), tuple(Cell(f"{column.steps:,}") for column in selection.columns))
    return Table(
        "Number of seeds, and steps of each run.",
        ("policy", *(selection.title(column) for column in selection.columns)),
        (Group("", tuple(rows)), Group("", (steps,))),
    )


def _environments(selection: Selection) -> tuple[str, ...]:
    runs = Counter(record.environment for records in selection.cells.values() for record in records)
    return tuple(f"{environment} ({count(amount, 'run')})" for environment, amount in runs.most_common())
