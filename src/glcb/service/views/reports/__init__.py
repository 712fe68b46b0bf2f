"""Reports of an experiment for people without access: a page, and a summary for chats."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from msgspec import UNSET

from glcb._api.reports import Report
from glcb._api.responses import ExperimentInfo
from glcb._api.statistics import Curves
from glcb.service.core.experiment import Experiment
from glcb.service.errors import ApiError
from glcb.service.views.curves import CurvesQuery, curves, parse_time
from glcb.service.views.reports.changes import changes_in_words
from glcb.service.views.reports.page import report_page
from glcb.service.views.reports.summary import summarize
from glcb.service.views.responses import experiment_info

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'"
)
"""A report has its styles inside and no scripts."""
_MAX_DAYS = 10_000
_POINTS = 150
_TIME = {"type": "string", "format": "date-time"}
QUERY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("from", {**_TIME, "description": "Start of the period; by default, the start of the experiment."}),
    ("to", {**_TIME, "description": "End of the period; by default, now."}),
    (
        "days",
        {
            "type": "integer",
            "minimum": 1,
            "maximum": _MAX_DAYS,
            "description": "The last days up to now, instead of `from` and `to`: 7 for a weekly summary.",
        },
    ),
    (
        "format",
        {"type": "string", "enum": ["html", "json"], "default": "html", "description": "`json` for chats."},
    ),
)
"""The query parameters of a report."""


class ReportQuery(NamedTuple):
    """The period and the format of a report."""

    curves: CurvesQuery
    format: Literal["html", "json"]


def parse_query(query: Mapping[str, str], now: float) -> ReportQuery:
    """Return the parsed query of a report.

    >>> parse_query({"days": "7", "format": "json"}, now=1_000_000.0)
    ReportQuery(curves=CurvesQuery(start=395200.0, end=None, points=150, arm=None), format='json')
    """
    form, days = query.get("format", "html"), query.get("days")
    if query.keys() - dict(QUERY).keys() or form not in ("html", "json"):
        raise ApiError(
            "invalid_request",
            f"the query must be from=TIME, to=TIME, days=NUMBER and format=html or json, got {dict(query)!r}",
        )
    start, end = (parse_time(name, query[name]) if name in query else None for name in ("from", "to"))
    if days is not None:
        valid = days.isascii() and days.isdigit() and len(days) < 6 and 1 <= int(days) <= _MAX_DAYS
        if not valid or start is not None or end is not None:
            raise ApiError(
                "invalid_request",
                f"days must be a number from 1 to {_MAX_DAYS}, without from and to, got {dict(query)!r}",
            )
        start = now - int(days) * 86_400
    if start is not None and end is not None and start >= end:
        raise ApiError("invalid_request", f"from must be before to, got {query['from']} and {query['to']}")
    return ReportQuery(CurvesQuery(start, end, _POINTS), "json" if form == "json" else "html")


class ReportData(NamedTuple):
    """What was read of an experiment, and its summary."""

    info: ExperimentInfo
    curves: Curves
    summary: Report

    def page(self) -> str:
        """Return the report as a page."""
        return report_page(self.info, self.summary, self.curves, datetime.now(UTC))


def reader(query: CurvesQuery) -> Callable[[Experiment], ReportData]:
    """Return a function that reads the data of a report."""

    def read(experiment: Experiment) -> ReportData:
        info, found = experiment_info(experiment), curves(experiment, query)
        return ReportData(info, found, summarize(info, found, _changes(experiment, found)))

    return read


def _changes(experiment: Experiment, found: Curves) -> tuple[str, ...]:
    """Return what was changed in the period, oldest first."""
    trail = experiment.state.trail
    return () if trail is UNSET else changes_in_words(trail.changes, found.start, found.end)
