"""The report of an evaluation, as one HTML page, as Markdown and as JSON."""

import json
from collections.abc import Mapping
from pathlib import Path

from glcb._document import html, markdown
from glcb._document.document import Document, Fact, Gallery, Group, Listing, Row, Section, Table, TableCell
from glcb._errors import LogError
from glcb._files import atomic_write
from glcb.evaluate.diagnostics import Diagnostic
from glcb.evaluate.figures import arm_figure, value_figure
from glcb.evaluate.result import (
    DIRECT_HEADING,
    Evaluation,
    Interval,
    PolicyResult,
    estimator_columns,
    remarks,
)

_INTRODUCTION = (
    "The value of a policy is its expected reward per {unit} in the contexts of the log, estimated from "
    "decisions that another policy made. The interval at any time is a 95% confidence sequence: it stays "
    "valid while data arrive and if the logging policy was learning. Normal and bootstrap intervals do not; "
    "use them only if neither policy learns and the end of the log was fixed in advance."
)
_MARKS = {"ok": "passed", "warning": "warning", "error": "do not use"}


def write(result: Evaluation, folder: Path) -> list[Path]:
    """Write ``evaluation.json``, which needs no figures, and then ``report.html`` and ``report.md``."""
    _write_files(
        folder, {"evaluation.json": json.dumps(result.to_dict(), indent=1, ensure_ascii=False) + "\n"}
    )
    page = document(result)
    _write_files(folder, {"report.html": html.render(page), **markdown.render(page)})
    return [folder / name for name in ("report.html", "report.md", "evaluation.json")]


def _write_files(folder: Path, files: Mapping[str, str]) -> None:
    try:
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(folder / name) as file:
                file.write(text.encode())
    except OSError as error:
        raise LogError(f"cannot write the report to {folder}: {error.strerror or error}") from error


def document(result: Evaluation) -> Document:
    """Return the report."""
    refused = sum(result.refused.values())
    facts = [
        Fact(f"{result.rows:,}", f"{result.unit}s"),
        Fact(f"{len(result.arms):,}", "arms"),
        Fact(f"{refused:,}", "rows rejected"),
    ]
    sections = [
        Section("values", "Values", (_value_table(result), Gallery("", (value_figure(result),)))),
        Section("checks", "Checks", _checks(result)),
        Section("differences", f"Differences from {result.reference}", (_difference_table(result),)),
        Section("weights", "Weights and arms", (_weight_table(result), Gallery("", (arm_figure(result),)))),
    ]
    notes = [*remarks(result), *(_refusal(result, reason) for reason in result.refused)]
    if notes:
        sections.append(Section("log", "Log", (Listing(tuple(notes)),)))
    introduction = _INTRODUCTION.format(unit=result.unit)
    return Document("Off-policy evaluation", result.conclusion, introduction, tuple(facts), tuple(sections))


def _value_table(result: Evaluation) -> Table:
    names, apart = estimator_columns(result)
    rows = [
        _row(
            own,
            [
                *(str(own.estimates[name]) for name in names),
                _text(own.sequence),
                _MARKS[own.level],
                *(str(own.estimates[name]) for name in apart),
            ],
        )
        for own in result.policies
    ]
    caption = f"Estimated reward per {result.unit} ± standard error"
    groups = [Group("", tuple(rows))]
    if result.replays:
        blank, last = [""] * len(names), [""] * len(apart)
        replayed = [
            _row(own, [str(own.estimates["replay"]), *blank, _MARKS[own.level], *last])
            for own in result.replays
        ]
        groups.append(Group("Replay: the policy learned from accepted rows only", tuple(replayed)))
    columns = ("policy", *names, "95% at any time", "checks", *(DIRECT_HEADING for _ in apart))
    return Table(caption, columns, tuple(groups))


def _difference_table(result: Evaluation) -> Table:
    names = list(result.policies[0].estimates)
    first = names[0]
    rows = [
        _row(
            own,
            [
                str(own.differences[first]),
                _text(own.difference_sequence),
                str(own.differences[first].normal),
                _text(own.differences[first].bootstrap),
            ],
        )
        for own in result.policies
        if own.name != result.reference
    ]
    columns = (
        "policy",
        f"{first} ± s.e.",
        "95% at any time",
        "normal, fixed logging only",
        "bootstrap, fixed logging only",
    )
    return Table("Paired differences", columns, (Group("", tuple(rows)),))


def _weight_table(result: Evaluation) -> Table:
    rows = [
        _row(
            own,
            [
                "" if own.effective_rows is None else f"{own.effective_rows:,.0f}",
                "" if own.largest_weight is None else f"{own.largest_weight:,.4g}",
                f"{own.match_rate or 0:.1%}",
            ],
        )
        for own in result.policies
    ]
    columns = ("policy", "effective rows", "largest weight", "match rate")
    return Table("What the estimates rest on", columns, (Group("", tuple(rows)),))


def _checks(result: Evaluation) -> tuple[Table, ...]:
    groups = [Group("the log", tuple(map(_check, result.diagnostics)))]
    groups += [
        Group(own.name, tuple(map(_check, own.diagnostics)))
        for own in (*result.policies, *result.replays)
        if own.diagnostics
    ]
    return (Table("Every check, in words", ("check", "result", "meaning"), tuple(groups), textual=True),)


def _check(own: Diagnostic) -> Row:
    return Row(
        TableCell(own.name), (TableCell(_MARKS[own.level], best=own.level == "error"), TableCell(own.message))
    )


def _row(own: PolicyResult, cells: list[str]) -> Row:
    unusable = own.level == "error"
    return Row(
        TableCell(own.name), tuple(TableCell(text, uncertain=unusable and bool(text)) for text in cells)
    )


def _text(interval: Interval | None) -> str:
    return "" if interval is None else str(interval)


def _refusal(result: Evaluation, reason: str) -> str:
    return f"{result.refused[reason]:,} × {reason}, for example {result.examples[reason]}"
