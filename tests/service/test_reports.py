"""Reports for people without access: the page and the summary say the same, for one period."""

import re
import time
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from glcb.service.views.reports.page import time_label
from tests.support.asgi import E, Service, create_experiment

HOSTILE = "<script>alert(1)</script>"


async def simulate(service: Service, visitors: int) -> None:
    """Make decisions whose reward is 1 for half of those with the arm b, and report it."""
    rng = Random(10_000)
    contexts = [{"context": {"x": rng.random()}} for _ in range(visitors)]
    decisions = (await service.ask("POST", f"{E}/decisions/batch", {"decisions": contexts})).data["results"]
    rewards = [{"id": one["id"], "value": int(one["arm"] == "b" and rng.random() < 0.5)} for one in decisions]
    assert (await service.ask("POST", f"{E}/rewards", {"rewards": rewards})).status == 200


async def test_a_report_is_one_page_without_scripts_or_links_to_elsewhere(service: Service) -> None:
    await create_experiment(service, arms=["b", HOSTILE], holdout=0.5)
    empty = await service.ask("GET", f"{E}/report")
    assert "No rewards yet" in empty.content.decode()
    await simulate(service, 300)
    answer = await service.ask("GET", f"{E}/report")
    page = answer.content.decode()
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "script" not in answer.headers["content-security-policy"]
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert re.findall(r'(?:src|href)="(?!#|data:)', page) == []
    assert page.count("<svg") <= 1

    summary = (await service.ask("GET", f"{E}/report", query="format=json&days=7")).data
    assert summary["decisions"] == 300
    assert summary["text"].startswith("home, ")
    assert "300 decisions." in summary["text"]
    shares = {arm["arm"]: arm["decisions"] for arm in summary["arms"]}
    assert sum(shares.values()) == 300
    stats = (await service.ask("GET", f"{E}/stats")).data
    assert summary["lift"]["difference"] == stats["lift"]["difference"]
    assert summary["changes"] == []
    changed = {"holdout": 0.25, "reason": "enough data"}
    assert (await service.ask("PATCH", E, changed)).status == 200
    await simulate(service, 20)
    (change,) = (await service.ask("GET", f"{E}/report", query="format=json")).data["changes"]
    assert change.endswith("holdout 50% → 25%, by local (enough data)")


async def test_the_period_of_a_report_is_checked_and_kept(service: Service) -> None:
    await create_experiment(service)
    await simulate(service, 50)
    tomorrow = (datetime.fromtimestamp(time.time(), UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    later = await service.ask("GET", f"{E}/report", query=f"format=json&from={tomorrow}")
    assert later.data["decisions"] == 0
    for query in ("days=0", "days=7&from=2026-11-10T00:00:00Z", "format=pdf", "from=yesterday", "week=1"):
        refused = await service.ask("GET", f"{E}/report", query=query)
        assert (refused.status, refused.code) == (422, "invalid_request"), query


async def test_a_report_names_the_control_and_paused_arms_and_has_no_lift_in_shadow_mode(
    service: Service,
) -> None:
    await create_experiment(service, arms=["a", "b", "c"], control="a", shadow=True)
    await simulate(service, 60)
    summary = (await service.ask("GET", f"{E}/report", query="format=json")).data
    assert (summary["over"], summary["lift"]) == ("control", None)
    assert "no lift in shadow mode" in summary["text"]
    assert (await service.ask("PATCH", f"{E}/arms/c", {"paused": True})).status == 200
    assert (await service.ask("PATCH", E, {"shadow": None, "baseline": "control"})).status == 200
    await simulate(service, 60)
    page = (await service.ask("GET", f"{E}/report")).content.decode()
    assert "the control “a”" in page
    assert "a (control)" in page
    assert "c (paused)" in page


async def test_a_report_shows_the_lift_over_random_until_a_decision_compares_with_the_control(
    service: Service,
) -> None:
    await create_experiment(service, arms=["a", "b"], holdout=0.5)
    await simulate(service, 100)
    assert (await service.ask("PATCH", E, {"control": "a"})).status == 200
    before = (await service.ask("GET", f"{E}/report", query="format=json")).data
    assert (before["over"], before["lift"]["n"]) == ("random", 100)
    await simulate(service, 50)
    after = (await service.ask("GET", f"{E}/report", query="format=json")).data
    assert (after["over"], after["lift"]["n"]) == ("control", 50)
    assert after["lift"]["since"] > before["lift"]["since"]


@pytest.mark.parametrize(
    ("seconds", "label"),
    [(3, "09:05:07 UTC"), (3_600, "1 Nov, 09:05 UTC"), (30 * 86_400, "1 Nov 2026")],
)
def test_the_times_of_a_figure_are_as_precise_as_its_period_requires(seconds: int, label: str) -> None:
    assert time_label(datetime(2026, 11, 1, 9, 5, 7, tzinfo=UTC), seconds) == label
