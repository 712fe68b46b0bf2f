"""The walks of requests through the code stay short."""

from benchmarks import call_paths


def test_every_kind_of_request_is_counted() -> None:
    measured = call_paths.measure()
    assert list(measured) == [
        "GLCB.decide",
        "Bandit.decide",
        "Bandit.reward",
        "HTTP decision",
        "HTTP settings change",
        "glcb evaluate",
    ]
    for calls in measured.values():
        assert calls.walk.calls >= calls.walk.functions >= calls.walk.modules > 1
    assert any(
        line.endswith("service/core/deciding.py: decide") for line in measured["HTTP decision"].lines()
    )
