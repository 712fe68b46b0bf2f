"""The dashboard in a real browser, on a wide and a narrow screen."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.service.server import Server
from tests.support.pages import (
    Open,
    Scheme,
    check_accessibility,
    check_width,
    decisions,
    simulate_two_seconds,
)
from tests.support.simulated_shop import ARMS, Shop

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.live]

NAMES = {1280: "homepage", 390: "front-page"}
FIGURES = os.environ.get("GLCB_FIGURES")
"""Folder for the figures of the documentation (``make figures``), which need more visitors."""


@pytest.fixture
def screenshots(tmp_path: Path) -> Path:
    """Return the folder for screenshots."""
    return Path(FIGURES or tmp_path)


def take_screenshot(page: "Page", path: Path, part: str | None = None) -> None:
    """Save a screenshot of the top of the page, or of a part of it."""
    page.evaluate("scrollTo(0, 0)")
    if part is None:
        page.screenshot(path=path)
    else:
        page.locator(part).screenshot(path=path)
    assert 5_000 < path.stat().st_size < 200_000


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_an_experiment_is_created_watched_explained_and_changed(
    opened: Open, server: Server, width: int, scheme: Scheme, screenshots: Path
) -> None:
    from playwright.sync_api import expect

    name = NAMES[width]
    path = f"/v1/experiments/{name}"
    assert server.client.put("/v1/experiments/another", {"arms": ["a", "b"], "policy": "linucb"}).status < 300
    page = opened(server.url, width, scheme)
    expect(page.get_by_role("link", name="another")).to_be_visible()
    check_accessibility(page)
    check_width(page)

    # Create by keyboard.
    page.get_by_role("button", name="New experiment").press("Enter")
    expect(page.get_by_role("dialog", name="New experiment")).to_be_visible()
    page.get_by_role("button", name="Create", exact=True).press("Enter")
    expect(page.locator(".field .problem")).to_have_text(
        ["An experiment needs a name.", re.compile("at least two arms")]
    )
    page.keyboard.type(name)
    page.get_by_label("Arms").fill("\n".join(ARMS))
    for label in ("Reward timeout", "Default reward", "Reward aggregation"):
        expect(page.get_by_label(label)).to_be_visible()
    page.get_by_text("How large should the holdout be?").press("Enter")
    expect(page.get_by_role("columnheader", name="holdout")).to_be_visible()
    page.get_by_label("Holdout").fill("0.2")
    check_accessibility(page)
    page.get_by_role("button", name="Create", exact=True).press("Enter")

    # Connect: the code on the page works as it is, and the page shows that it did.
    expect(page.get_by_role("heading", name="No decisions yet")).to_be_visible()
    check_accessibility(page)
    check_width(page)
    exec(page.locator(".code").inner_text())
    expect(page.get_by_text("First decision received: 1 decision")).to_be_visible()
    expect(page.get_by_text("First reward received: 1 reward")).to_be_visible()
    for language, part in (("JavaScript", f'.experiment("{name}")'), ("curl", f"/v1/experiments/{name}/")):
        page.get_by_role("radio", name=language).check(force=True)
        expect(page.locator(".code")).to_contain_text(part)
    if width > 1000:
        take_screenshot(page, screenshots / "connect.png")

    # Watch: the page updates without a reload.
    shop = Shop(server.client, name)
    simulate_two_seconds(shop, 400 if FIGURES is None else 4000)
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    expect(page.locator(".chart canvas")).to_have_count(3)
    expect(page.get_by_role("heading", name="Connected")).to_be_hidden()
    before = decisions(page)
    assert before >= 20
    shop.simulate(200)
    page.wait_for_function(
        "before => +document.querySelector('.key-figures > :nth-child(5) .number')"
        ".textContent.replace(',', '') > before",
        arg=before,
    )
    truth = server.client.get(f"{path}/stats").data
    expect(page.locator(".arms tbody tr")).to_have_count(4)
    share = page.locator(".arms tr", has_text="Summer sale").locator("td.share")
    expect(share).to_have_text(f"{100 * truth['arms'][0]['share']:.1f}%")
    failed = [check for check in truth["health"] if check["ok"] is False]
    expect(page.locator(".attention li")).to_have_count(len(failed))
    page.locator(".health-checks summary").click()
    expect(page.locator(".health-checks li")).to_have_count(len(truth["health"]))
    page.locator(".health-checks summary").click()
    assert "bandit" in (page.get_by_role("img", name="Recent reward over").get_attribute("aria-label") or "")
    page.get_by_text("Show as a table").first.click()
    # The table is filled by the toggle event, which fires after the click has returned.
    lift_table = page.get_by_role("region", name="Lift over time as a table")
    expect(lift_table.locator("tbody tr").nth(1)).to_be_attached()
    page.get_by_role("radio", name="decisions").check(force=True)
    check_width(page)
    check_accessibility(page)

    # Explain: the bars of an arm lead from its base to its value.
    page.get_by_label("country").fill("IT")
    page.get_by_role("button", name="Explain").click()
    asked = {"context": {"country": "IT", "age": 49, "hour": 12, "member": True}}
    expect(page.locator(".explanation article")).to_have_count(4)
    best = max(
        server.client.post(f"{path}/explanations", asked).data["arms"],
        key=lambda arm: float(arm["probability"]),
    )
    first = page.locator(".explanation article").first
    expect(first).to_contain_text(f"probability {100 * best['probability']:.1f}%")
    expect(first).to_contain_text("outside the holdout (20%)")
    expect(page.get_by_label("hour", exact=True)).to_have_attribute(
        "placeholder", re.compile(r"^\d{1,2} to \d{2}$")
    )
    expect(first.locator("li")).to_have_count(len(best["contributions"]) + 2)
    check_accessibility(page)
    check_width(page)
    page.get_by_text("Show as a table").first.click()
    page.get_by_role("radio", name="time").check(force=True)
    take_screenshot(page, screenshots / f"dashboard{'-phone' if width < 1000 else ''}.png")
    take_screenshot(
        page, screenshots / f"explained{'-phone' if width < 1000 else ''}.png", "section:has(.explain)"
    )
    page.get_by_role("radio", name="JSON").check(force=True)
    page.get_by_label("Context as JSON").fill("{")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_text("Invalid JSON")).to_be_visible()
    expect(page.locator(".explanation article")).to_have_count(0)

    # Every other page of the experiment.
    for title, shown in (
        ("Segments", "The intervals are corrected"),
        ("History", "Experiment created"),
        ("Settings", "Pause or end"),
    ):
        page.get_by_role("link", name=title, exact=True).click()
        expect(page.get_by_role("heading", name=title)).to_be_visible()
        expect(page.get_by_text(shown).first).to_be_visible()
        check_accessibility(page)
        check_width(page)
        if width > 1000:
            take_screenshot(page, screenshots / f"{title.lower()}.png")
    page.get_by_label("Holdout").fill("7")
    page.get_by_label("Exploration", exact=True).fill("3")
    page.get_by_role("button", name="Save changes").click()
    expect(page.get_by_text("2 fields need attention.")).to_be_visible()
    expect(page.locator(".field .problem")).to_have_count(2)
    check_accessibility(page)
    page.get_by_role("link", name="Overview").click()
    page.get_by_role("link", name="New arrivals").click()
    expect(page.get_by_role("heading", name="Reward of this arm")).to_be_visible()
    check_accessibility(page)
    check_width(page)
    if width > 1000:
        take_screenshot(page, screenshots / "arm.png")
    page.get_by_role("link", name="Overview").click()
    report = page.get_by_role("link", name="Report").get_attribute("href")
    page.goto(f"{server.url}/{report}")
    expect(page.get_by_text("Lift over random assignment")).to_be_visible()
    check_accessibility(page)
    check_width(page)
    if width > 1000:
        take_screenshot(page, screenshots / "report.png")
    page.goto(f"{server.url}/#/{name}")

    # Change: an arm is added, and another is removed after a confirmation.
    page.get_by_role("button", name="Add arm").click()
    page.get_by_label("Name").fill("Mystery box")
    page.get_by_label("Initial state").select_option("Gift cards")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator(".arms tbody tr")).to_have_count(5)
    page.get_by_role("button", name="Remove Gift cards").click()
    check_accessibility(page)
    page.keyboard.press("Escape")
    expect(page.locator(".arms tbody tr")).to_have_count(5)
    page.get_by_role("button", name="Remove Gift cards").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.locator(".arms tbody tr")).to_have_count(4)
    shown = server.client.get(path).data
    assert shown["settings"]["arms"] == ["Summer sale", "Free shipping", "New arrivals", "Mystery box"]
    for action, state in (("Pause", "paused"), ("Resume", "running")):
        page.get_by_role("button", name=action, exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name=action).click()
        expect(page.locator("h1 .state")).to_have_text(state)
        assert server.client.get(path).data["state"] == state


def test_ten_questions_are_answered_in_at_most_two_clicks(opened: Open, server: Server) -> None:
    """The questions and clicks of docs/dashboard.md."""
    from playwright.sync_api import expect

    name = "questions"
    path = f"/v1/experiments/{name}"
    settings = {"arms": ARMS, "policy": "linucb", "holdout": 0.2}
    assert server.client.put(path, settings).status == 201
    simulate_two_seconds(Shop(server.client, name), 600)
    assert server.client.ask("PATCH", path, {"holdout": 0.1, "reason": "enough data"}).status == 200
    home = f"{server.url}/#/{name}"
    page = opened(home)
    tab = page.get_by_role
    questions: list[tuple[str, list[Any], Any]] = [
        ("Is it better than what we had?", [], page.locator(".key-figures .verdict-words")),
        ("How much has it gained?", [], page.locator(".key-figures .gain", has_text="rewards gained")),
        ("Since when?", [], tab("heading", name="Lift over time")),
        (
            "For whom?",
            [tab("link", name="Segments"), page.locator("label", has_text="country")],
            page.locator(".segment-table", has_text="IT"),
        ),
        (
            "What did we change on Tuesday?",
            [tab("link", name="History", exact=True).first],
            page.locator(".trail", has_text="enough data"),
        ),
        (
            "Which arm is best, and how sure are we?",
            [tab("link", name="Free shipping")],
            page.locator(".key-figures.plain dd", has_text=re.compile(r"% to ")),
        ),
        (
            "How did it go this week?",
            [page.locator("label", has_text="7 days")],
            page.get_by_text("in this period").first,
        ),
        (
            "Why does somebody get this arm?",
            [tab("button", name="Explain")],
            page.locator(".explanation article").first,
        ),
        (
            "Can I trust the numbers?",
            [page.locator(".health-checks summary")],
            page.locator(".health-checks li").first,
        ),
        (
            "Can I turn an arm off?",
            [
                tab("button", name="Pause Gift cards"),
                page.get_by_role("dialog").get_by_role("button", name="Pause"),
            ],
            page.locator(".arms tr", has_text="Gift cards").locator(".state", has_text="paused"),
        ),
    ]
    assert len(questions) == 10
    for question, clicks, answer in questions:
        page.goto("about:blank")
        page.goto(home)
        expect(page.locator(".arms tbody tr")).to_have_count(4)
        assert len(clicks) <= 2, question
        for click in clicks:
            click.click()
        expect(answer, question).to_be_visible()
    shown = server.client.get(path).data
    assert shown["settings"]["paused_arms"] == ["Gift cards"]


@pytest.mark.parametrize("place", ["", "/arms/Gift%20cards"])
def test_a_period_that_starts_later_says_when_its_intervals_hold(
    opened: Open, server: Server, place: str
) -> None:
    """The experiment is too young for a period of a day, so that the answer is altered."""
    from playwright.sync_api import Route, expect

    path = "/v1/experiments/periods"
    assert server.client.put(path, {"arms": ARMS, "policy": "linucb"}).status in (200, 201)
    Shop(server.client, "periods").simulate(50)
    page = opened(f"{server.url}/#/periods{place}")
    note = page.get_by_text("only if its start was chosen in advance")
    expect(page.get_by_role("group", name="Period")).to_be_visible()
    expect(note).to_be_hidden()

    def shorten(route: Route) -> None:
        response = route.fetch()
        route.fulfill(response=response, json={**response.json(), "anytime_valid": False})

    page.route("**/curves?from=*", shorten)
    page.locator("label", has_text="24 hours").click()
    expect(note).to_be_visible()
    check_accessibility(page)
    check_width(page)
    page.locator("label", has_text="all").click()
    expect(note).to_be_hidden()


def test_both_lifts_are_shown_after_a_control_is_set(opened: Open, server: Server) -> None:
    from playwright.sync_api import expect

    path = "/v1/experiments/later-control"
    assert server.client.put(path, {"arms": ARMS, "policy": "linucb", "holdout": 0.2}).status == 201
    shop = Shop(server.client, "later-control")
    shop.simulate(300)
    page = opened(f"{server.url}/#/later-control")
    figures = page.locator(".key-figures .lift")
    expect(figures.locator("dt")).to_have_text("Lift over random assignment")
    expect(figures).to_contain_text(re.compile(r"From \d+ decisions since"))
    expect(figures.locator(".second-lift")).to_be_empty()
    assert server.client.ask("PATCH", path, {"control": ARMS[0]}).status == 200
    expect(figures.locator(".second-lift")).to_contain_text(
        f"Over the control “{ARMS[0]}”: No decision compares the bandit with the control yet."
    )
    expect(figures.locator("dt")).to_have_text("Lift over random assignment")
    shop.simulate(100)
    expect(figures.locator("dt")).to_have_text(f"Lift over the control “{ARMS[0]}”")
    expect(figures.locator(".second-lift")).to_contain_text("Over random assignment: ")
    expect(figures.locator(".second-lift")).to_contain_text(re.compile(r"from \d+ decisions since"))
    check_accessibility(page)
    check_width(page)
    shown = server.client.get(f"{path}/stats").data
    assert shown["lift"]["n"] > 200 > shown["control_lift"]["n"] > 0
    assert shown["lift"]["since"] < shown["control_lift"]["since"]
    assert (
        shown["control_lift"]["decisions_missing"] is None or shown["control_lift"]["decisions_missing"] > 0
    )


def test_money_has_two_decimals_everywhere_and_what_is_lost_is_not_gained(
    opened: Open, server: Server
) -> None:
    from playwright.sync_api import expect

    path = "/v1/experiments/revenue"
    settings = {
        "arms": ["a", "b"],
        "policy": "uniform",
        "rewards": [0, 200],
        "reward_unit": "€",
        "metrics": {"costs": {"range": [0, 50], "unit": "€"}},
        "guardrails": [{"metric": "costs", "max_rise": 0.1, "against": "random", "pauses": "experiment"}],
    }
    assert server.client.put(path, settings).status == 201
    contexts = [{"context": {"x": place}} for place in range(200)]
    decided = server.client.post(f"{path}/decisions/batch", {"decisions": contexts}).data["results"]
    rewards = [
        {"id": one["id"], "value": place % 3 * 40.5, "metrics": {"costs": place % 4}}
        for place, one in enumerate(decided)
    ]
    assert server.client.post(f"{path}/rewards", {"rewards": rewards}).status == 200
    page = opened(f"{server.url}/#/revenue")
    expect(page.locator(".arms tbody tr")).to_have_count(2)
    expect(page.locator(".guardrails h3")).to_have_text("costs at most 10% above random assignment")
    money = re.compile(r"−?[\d,]+(?:\.\d+)? €")
    shown = money.findall(page.locator("main").inner_text())
    assert len(shown) > 10
    assert all(re.fullmatch(r"−?[\d,]+\.\d\d €", amount) for amount in shown), shown
    formats = page.evaluate(
        """async () => {
            const own = document.querySelector("script[type=module]").src;
            const { rewardFormat } = await import(own.replace("main.js", "format.js"));
            const clicks = rewardFormat({ rewards: "binary", reward_unit: "clicks" });
            const euros = rewardFormat({ rewards: [0, 200], reward_unit: "€" });
            const plain = rewardFormat({ rewards: [0, 10] });
            return [clicks.gained(-53), clicks.gained(487), euros.gained(-1234.5), euros.value(1.389),
                euros.difference(-0.5), euros.difference(0.001), plain.value(1.389), plain.gained(3)];
        }"""
    )
    assert formats == [
        "53 clicks lost",
        "487 clicks gained",
        "1,234.50 € lost",
        "1.39 €",
        "−0.50 €",
        "0.00 €",
        "1.389",
        "3.000 of reward gained",
    ]
    report = server.client.get(f"{path}/report?format=json").data["text"]
    assert re.search(r"\d\.\d\d € (gained|lost)", report)


def test_a_broken_guardrail_is_explained_and_the_control_comes_first(
    opened: Open, server: Server, expected: list[str]
) -> None:
    """The metric of the arm b is 0 and that of the others 1, so that its guardrail breaks soon."""
    from playwright.sync_api import expect

    expected.append("status of 422")
    path = "/v1/experiments/guarded"
    settings = {
        "arms": ["a", "b", "c"],
        "policy": "uniform",
        "control": "a",
        "baseline": "control",
        "traffic": 0.5,
        "metrics": {"revenue": {"range": [0, 1], "unit": "€"}},
        "guardrails": [{"metric": "revenue", "max_fall": 0.05}],
    }
    assert server.client.put(path, settings).status == 201
    for batch in range(6):
        contexts = [{"context": {"country": "FR" if place % 2 else "DE"}} for place in range(100)]
        decided = server.client.post(f"{path}/decisions/batch", {"decisions": contexts}).data["results"]
        rewards = [
            {"id": one["id"], "value": (place + batch) % 2, "metrics": {"revenue": int(one["arm"] != "b")}}
            for place, one in enumerate(decided)
        ]
        assert server.client.post(f"{path}/rewards", {"rewards": rewards}).status == 200

    page = opened(f"{server.url}/#/guarded", 390)
    expect(page.locator(".attention")).to_contain_text("revenue of “b” is more than 5% below the control")
    expect(page.locator(".key-figures .lift dt")).to_have_text("Lift over the control “a”")
    expect(page.locator(".pauses li")).to_contain_text("Paused by a guardrail")
    expect(page.locator(".guardrails tbody th")).to_have_text(["b", "c"])
    expect(page.locator(".guardrails .outcome").first).to_have_text("broken")
    expect(page.get_by_role("button", name="Remove a")).to_be_hidden()
    check_accessibility(page)
    check_width(page)
    page.get_by_role("link", name="Segments").click()
    expect(page.get_by_role("columnheader", name="Lift over the control")).to_be_visible()
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("Shares").fill('{"b": [0.6, 0.3]}')
    page.get_by_label("Exploration", exact=True).fill("0.2")
    page.get_by_role("button", name="Save changes").click()
    wrong = page.locator(".field", has=page.get_by_label("Shares")).locator(".problem")
    expect(wrong).to_contain_text("maximum share of 'b'")


def test_many_arms_with_hostile_names_fit(opened: Open, server: Server) -> None:
    from playwright.sync_api import expect

    arms = [f"arm {number}" for number in range(20)] + ["<img src=x onerror=alert(1)>", "w" * 200, "a/b?c#d%"]
    settings = {"arms": arms, "policy": "linucb", "rewards": [-5, 5]}
    assert server.client.put("/v1/experiments/many", settings).status == 201
    simulate_two_seconds(Shop(server.client, "many"), 200)
    page = opened(f"{server.url}/#/many", 390)
    expect(page.locator(".arms tbody tr")).to_have_count(len(arms))
    expect(page.locator(".legend").nth(2).locator("li")).to_have_count(8)
    check_width(page)
    page.get_by_role("button", name="Remove a/b?c#d%").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.locator(".arms tbody tr")).to_have_count(len(arms) - 1)


def test_an_evaluation_is_started_watched_and_judged(opened: Open, server: Server, screenshots: Path) -> None:
    from playwright.sync_api import expect

    settings = {"arms": ARMS, "policy": "linucb", "exploration": 0.3}
    assert server.client.put("/v1/experiments/judged", settings).status == 201
    Shop(server.client, "judged").simulate(2200 if FIGURES is None else 20_000, batch=100)
    page = opened(f"{server.url}/#/judged")
    page.get_by_role("link", name="Evaluations").click()
    expect(page.get_by_text("No evaluations yet.")).to_be_visible()
    page.get_by_role("button", name="New evaluation").click()
    page.get_by_label("Policies").fill("uniform, best-fixed-arm")
    check_accessibility(page)
    page.get_by_role("button", name="Evaluate").click()
    expect(page.get_by_role("heading", name="Evaluation 1")).to_be_visible()
    expect(page.locator("h1 .state")).to_have_text("finished", timeout=120_000)
    truth = server.client.get("/v1/experiments/judged/evaluations/1").data["result"]
    expect(page.locator(".verdict")).to_contain_text(truth["conclusion"])
    row = page.locator(".policies tr", has_text="uniform")
    (uniform,) = [policy for policy in truth["policies"] if policy["name"] == "uniform"]
    for estimator in ("snips", "dr"):
        page.get_by_label("Estimator").select_option(estimator)
        expect(row).to_contain_text(f"{100 * uniform['estimates'][estimator]['value']:.1f}% ±")
    expect(page.locator(".chart canvas")).to_have_count(1)
    page.get_by_label("Interval of").select_option("best-fixed-arm")
    expect(page.locator(".legend")).to_contain_text("best-fixed-arm, low")
    expect(page.locator(".checks li")).to_have_count(
        len(truth["diagnostics"])
        + sum(len(policy["diagnostics"]) for policy in truth["policies"] + truth["replays"])
    )
    check_accessibility(page)
    take_screenshot(page, screenshots / "evaluation.png")
    page.goto("about:blank")

    phone = opened(f"{server.url}/#/judged/evaluations", 390, "dark")
    phone.get_by_role("link", name="Evaluation 1").click()
    expect(phone.locator(".verdict")).to_contain_text(truth["conclusion"])
    check_accessibility(phone)
    check_width(phone)
    phone.get_by_role("button", name="Delete").click()
    phone.get_by_role("dialog").get_by_role("button", name="Delete evaluation").click()
    expect(phone.get_by_text("No evaluations yet.")).to_be_visible()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_catalog_is_searched_sorted_paged_and_explained(
    opened: Open, server: Server, width: int, scheme: Scheme
) -> None:
    from playwright.sync_api import expect

    name = f"catalog-{width}"
    path = f"/v1/experiments/{name}"
    arms = {f"film {number}": {"genre": "noir", "price": number % 7} for number in range(60)}
    assert server.client.put(path, {"arms": arms, "policy": "linucb"}).status == 201
    Shop(server.client, name).simulate(60)
    page = opened(f"{server.url}/#/{name}", width, scheme)
    rows = page.get_by_role("region", name="Arms").locator("tbody tr")
    expect(rows).to_have_count(25)
    expect(page.get_by_text("1 to 25 of 60")).to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("26 to 50 of 60")).to_be_visible()
    page.get_by_role("button", name="Arm", exact=True).click()
    page.get_by_role("button", name="Arm", exact=True).click()
    expect(rows.first).to_contain_text("film 0")
    page.get_by_label("Search arms").fill("film 59")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("genre = noir, price = 3")
    check_accessibility(page)
    check_width(page)

    page.get_by_text("Candidates of the request").click()
    page.get_by_label("Candidates as JSON").fill('{"new": {"genre": "comedy", "price": 2}, "film 3": null}')
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".explanation article")).to_have_count(2)
    expect(page.locator(".explanation")).to_contain_text("arm.genre = comedy")
    page.get_by_label("Candidates as JSON").fill("[]")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_text("Candidates must be an object")).to_be_visible()
    expect(page.locator(".explanation article")).to_have_count(0)

    page.get_by_role("button", name="Add arm").click()
    page.get_by_label("Name").fill("film 60")
    page.get_by_label("Features", exact=True).fill('{"genre": "drama", "price": 1}')
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("dialog")).to_be_hidden()  # until then, it keeps the focus
    page.get_by_label("Search arms").fill("film 60")
    expect(rows.first).to_contain_text("genre = drama")
    page.get_by_role("button", name="Remove film 60").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_text("no arms found")).to_be_visible()
