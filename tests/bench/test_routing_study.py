"""The routing study and the rules that it compares."""

from pathlib import Path

import pytest

from glcb.bench import studies
from glcb.bench.studies.routing import RoutingStudy
from tests.bench.test_studies import shown


@pytest.mark.data
def test_the_study_compares_rules_and_resumes(tmp_path: Path) -> None:
    reported: list[tuple[int, int]] = []
    context = studies.StudyContext(tmp_path, 1, lambda done, total: reported.append((done, total)))
    study = RoutingStudy(seeds=1, prompts=60, widths=(25,), curve=(0.0009,))
    first = study.run(context)
    assert reported[-1] == (11, 11)
    text = shown(first)
    for expected in ("ParetoBandit's rule", "nearest neighbors", "linucb", "price × 10", "best single model"):
        assert expected in text
    stored = (tmp_path / "results.jsonl").read_text()
    assert shown(study.run(context)) == text
    assert (tmp_path / "results.jsonl").read_text() == stored
    first.draw(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
