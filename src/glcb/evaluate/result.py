"""The result of an evaluation."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from glcb._html import paragraph, table, view
from glcb._types import Arm
from glcb.evaluate.diagnostics import Diagnostic, Level, worst

DIRECT_HEADING = "dm (biased)"
_DIRECT = "dm"
_DIRECT_REMARK = (
    "dm is the model alone. It is as biased as the model, and its ± does not include that: use it only to "
    "see what the model predicts."
)


class Interval(NamedTuple):
    """A 95% interval."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{_number(self.low)} to {_number(self.high)}"


class Point(NamedTuple):
    """A point of a curve: rows so far, estimate, and its confidence sequence."""

    rows: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Quantity:
    """An estimate with the intervals that are valid only for a fixed logging policy and a fixed end."""

    value: float
    error: float
    """Standard error."""
    normal: Interval
    """Normal interval. It assumes that neither the logging policy nor the evaluated one learns."""
    bootstrap: Interval | None = None
    """Percentile interval, under the same assumptions."""

    def __str__(self) -> str:
        return f"{_number(self.value)} ± {_number(self.error)}"


@dataclass
class PolicyResult:
    """The result for one policy.

    Attributes
    ----------
    name : str
        The name of the policy; ``logged`` is the policy that wrote the log.
    estimates : dict
        The estimated value, by estimator.
    differences : dict
        The estimated difference from the reference, by estimator. Rows are paired.
    Confidence sequence of the value: valid at every row, even if the logging policy was learning. It uses
    doubly robust terms if ``dr`` is among the estimators, reward-interaction IPS if ``rips`` is, and IPS
    otherwise.
    ips_sequence : Interval
        A confidence sequence from IPS, if ``dr`` is among the estimators.
    difference_sequence : Interval
        Confidence sequence of the difference from the reference.
    betting_sequence : Interval
        A narrower confidence sequence that assumes a constant value; only on request.
    """

    name: str
    estimates: Mapping[str, Quantity]
    rows: int
    diagnostics: list[Diagnostic]
    differences: Mapping[str, Quantity] = field(default_factory=dict)
    sequence: Interval | None = None
    difference_sequence: Interval | None = None
    ips_sequence: Interval | None = None
    betting_sequence: Interval | None = None
    effective_rows: float | None = None
    largest_weight: float | None = None
    match_rate: float | None = None
    shares: Mapping[Arm, float] = field(default_factory=dict)
    """The share of each arm in the decisions of the policy."""
    curve: list[Point] = field(default_factory=list)

    @property
    def level(self) -> Level:
        """``error`` if the numbers should not be used."""
        return worst(self.diagnostics)

    @property
    def problems(self) -> list[Diagnostic]:
        """The checks that failed."""
        return [each for each in self.diagnostics if each.level != "ok"]


@dataclass
class Evaluation:
    """The estimated value of every policy on a log.

    Attributes
    ----------
    rows : int
        Number of decisions, or of rankings, that were evaluated.
    slots : int
        The largest number of slots of a ranking. If it is more than 1, values are rewards per ranking.
    arms : dict
        Number of logged decisions for each arm.
    reference : str
        The policy that differences are relative to.
    policies : list of PolicyResult
        The results, the policy that wrote the log first.
    replays : list of PolicyResult
        The results of replaying the policies that learn.
    diagnostics : list of Diagnostic
        Checks of the log.
    refused : dict
        Number of rejected rows, by reason.
    examples : dict
        The first rejected row for each reason.
    notes : list of str
        Further remarks for the reader.
    """

    rows: int
    arms: Mapping[Arm, int]
    reference: str
    policies: list[PolicyResult]
    replays: list[PolicyResult]
    diagnostics: list[Diagnostic]
    refused: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    slots: int = 1

    def __getitem__(self, name: str) -> PolicyResult:
        """Return the result of a policy."""
        for own in (*self.policies, *self.replays):
            if own.name == name:
                return own
        raise KeyError(name)

    @property
    def unit(self) -> str:
        """What a row stands for: a decision or a ranking."""
        return "decision" if self.slots == 1 else "ranking"

    @property
    def level(self) -> Level:
        """``error`` if the log itself should not be used."""
        return worst(self.diagnostics)

    @property
    def conclusion(self) -> str:
        """Whether any policy is better than the reference, and the worst problem of this comparison."""
        if self.level == "error":
            return f"Do not use these numbers: {_worst_problem(self.diagnostics)}"
        others = [own for own in self.policies if own.name != self.reference]
        unusable = [own for own in others if own.level == "error"]
        better = [
            own
            for own in others
            if own not in unusable and own.difference_sequence is not None and own.difference_sequence.low > 0
        ]
        if better:
            best = max(better, key=lambda own: next(iter(own.differences.values())).value)
            statement = f"{best.name} is better than {self.reference}, with 95% confidence at any time."
            return " ".join(
                [statement, *filter(None, [_worst_problem((*self.diagnostics, *best.diagnostics))])]
            )
        if unusable:
            problem = _worst_problem(unusable[0].diagnostics)
            return f"Nothing can be concluded about {', '.join(own.name for own in unusable)}: {problem}"
        statement = f"No policy is shown to be better than {self.reference}."
        return " ".join([statement, *filter(None, [_worst_problem(self.diagnostics)])])

    def table(self) -> str:
        """Return the results as a table for a terminal, with the conclusion and all failed checks."""
        rows = self._cells()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([self._head(), "", *lines, "", self.conclusion, *remarks(self), *self._problems()])

    def _repr_html_(self) -> str:
        heads, *rows = self._cells()
        reference = [number for number, row in enumerate(rows) if row[0] == self.reference]
        texts = [paragraph(text) for text in (*remarks(self), *self._problems())]
        return view(self.conclusion, paragraph(self._head()), table(heads, rows, reference), *texts)

    def _head(self) -> str:
        refused = sum(self.refused.values())
        return f"{self.rows:,} {self.unit}s, {len(self.arms)} arms" + (
            f", {refused:,} rows rejected" * (refused > 0)
        )

    def _cells(self) -> list[list[str]]:
        """Return the headings and one row per policy."""
        names, apart = estimator_columns(self)
        rows = [["policy", *names, "95% at any time", "rows", "check", *(DIRECT_HEADING for _ in apart)]]
        for own in self.policies:
            cells = [str(own.estimates[name]) for name in names]
            interval = "" if own.sequence is None else str(own.sequence)
            worth = "" if own.effective_rows is None else f"{own.effective_rows:,.0f}"
            direct = [str(own.estimates[name]) for name in apart]
            rows.append([own.name, *cells, interval, worth, own.level, *direct])
        for own in self.replays:
            value = str(own.estimates["replay"])
            rows.append([own.name, value, *[""] * len(names), f"{own.rows:,}", own.level, *[""] * len(apart)])
        return rows

    def _problems(self) -> list[str]:
        """Return the failed checks and the rejected rows."""
        problems = [f"log: {each.message}" for each in self.diagnostics if each.level != "ok"]
        for own in (*self.policies, *self.replays):
            problems += [f"{own.name}: {each.message}" for each in own.problems]
        for reason, count in self.refused.items():
            problems.append(f"{count:,} × {reason}, for example {self.examples[reason]}")
        return problems

    def __str__(self) -> str:
        return self.table()

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self), default=str))
        return {"conclusion": self.conclusion, "level": self.level, **plain}

    def draw(self, path: str | PathLike[str]) -> None:
        """Draw the values with their confidence sequences over the log.

        Parameters
        ----------
        path : str or path
            A .png, .svg or .pdf file.

        Raises
        ------
        InvalidSettings
            If the figure cannot be saved.
        MissingExtra
            If matplotlib is not installed.
        """
        from glcb.evaluate.figures import draw

        draw(self, Path(path))

    def write(self, folder: str | PathLike[str]) -> list[Path]:
        """Write ``report.html``, ``report.md`` and ``evaluation.json``.

        Parameters
        ----------
        folder : str or path
            The folder; it is created if necessary.

        Returns
        -------
        list of Path
            The files.

        Raises
        ------
        LogError
            If a file cannot be written.
        MissingExtra
            If matplotlib is not installed. ``evaluation.json`` is still written.
        """
        from glcb.evaluate.report import write

        return write(self, Path(folder))


def estimator_columns(result: Evaluation) -> tuple[list[str], list[str]]:
    """Return the estimator columns, with the direct method separate unless it is the only one."""
    names = list(result.policies[0].estimates)
    apart = [name for name in names if name == _DIRECT and len(names) > 1]
    return [name for name in names if name not in apart], apart


def remarks(result: Evaluation) -> list[str]:
    """Return the notes, and remarks on the columns."""
    return [*result.notes, *(_DIRECT_REMARK for _ in estimator_columns(result)[1])]


def _worst_problem(diagnostics: Sequence[Diagnostic]) -> str:
    """Return the message of the worst failed check, or an empty text. The first of a level is the worst."""
    level = worst(diagnostics)
    return next((each.message for each in diagnostics if each.level == level != "ok"), "")


def _number(value: float) -> str:
    return f"{value:.4g}".replace("-", "−")
