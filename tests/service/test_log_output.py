"""Log lines have a limited length and a limited rate."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from glcb.service.process import log_output
from glcb.service.process.log_output import configure_logging

log = logging.getLogger("glcb.service")


@pytest.fixture(params=["json", "text"])
def output(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    loggers = [logging.getLogger(name) for name in ("glcb.service", "uvicorn.error")]
    before = [(one.handlers, one.propagate, one.level) for one in loggers]
    configure_logging("info", request.param)
    factory = logging.getLogRecordFactory()
    logging.setLogRecordFactory(logging.LogRecord)  # Ray installs one that takes the time from elsewhere
    yield stream
    logging.setLogRecordFactory(factory)
    for one, (handlers, propagate, level) in zip(loggers, before, strict=True):
        one.handlers, one.propagate, one.level = handlers, propagate, level


def test_long_texts_are_shortened(output: io.StringIO) -> None:
    try:
        raise ValueError("x" * 1_000_000)
    except ValueError:
        log.exception("y" * 1_000_000, extra={"reason": "z" * 1_000_000})
    assert len(output.getvalue()) < 40_000
    for letter in "xyz":
        assert f"{letter} … {letter}" in output.getvalue().encode().decode("unicode_escape") or (
            letter * 3000 in output.getvalue()
        )


def test_a_message_that_repeats_is_suppressed_and_counted(
    output: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.time", lambda: now)
    for _ in range(1000):
        log.warning("a request failed")
    log.warning("something else")
    assert output.getvalue().count("a request failed") == log_output._MAX_REPEATS
    assert output.getvalue().count("something else") == 1
    now += 60
    log.warning("a request failed")
    last = output.getvalue().splitlines()[-1]
    assert (json.loads(last)["suppressed"] if last.startswith("{") else int(last.partition("=")[2])) == 900


def test_fields_that_other_libraries_add_for_themselves_are_left_out(output: io.StringIO) -> None:
    log.warning("a request failed", extra={"_ray_timestamp_ns": 17, "reason": "timeout"})
    assert "_ray" not in output.getvalue()
    assert "timeout" in output.getvalue()


def test_a_value_with_line_breaks_stays_on_one_line(output: io.StringIO) -> None:
    log.warning("a request failed\nforged", extra={"reason": "one\r\ntwo\u2028three"})
    assert len(output.getvalue().splitlines()) == 1
