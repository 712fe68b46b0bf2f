"""The Grafana dashboard shows exactly the metrics and labels that the service exports."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from glcb.service.http import openapi
from tests.support.asgi import CREATION, E, Service, with_service

DASHBOARD = Path(__file__).parents[2] / "docs" / "assets" / "grafana-dashboard.json"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The labels of every exported sample, by its name."""
    labels: dict[str, set[str]] = {}

    async def scenario(service: Service) -> None:
        await service.ask("PUT", E, CREATION)
        decision = (await service.ask("POST", f"{E}/decisions", {"context": {"age": 31}})).data
        await service.ask("POST", f"{E}/decisions/{decision['id']}/reward", {"value": 1})
        await service.ask("POST", f"{E}/decisions", b"{")
        text = (await service.ask("GET", "/metrics")).content.decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels.setdefault(sample.name, set()).update(sample.labels)

    with_service(tmp_path_factory.mktemp("grafana"), scenario)
    return labels


def panels() -> list[dict[str, Any]]:
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def expressions() -> list[str]:
    board = json.loads(DASHBOARD.read_text())
    queries = [variable["query"] for variable in board["templating"]["list"] if variable["type"] == "query"]
    return [
        *(target["expr"] for panel in panels() for target in panel["targets"]),
        *(query["query"] for query in queries),
    ]


def test_every_metric_and_label_of_the_dashboard_is_exported(exported: dict[str, set[str]]) -> None:
    for expression in expressions():
        names = set(re.findall(r"\bglcb_\w+", expression))
        assert names, expression
        assert names <= exported.keys(), expression
        (name,) = names
        groups = re.findall(r"by \(([^)]*)\)", expression)
        used = {label for group in groups for label in re.split(r",\s*", group)}
        used |= set(re.findall(r"(\w+)=~?\"", expression))
        assert used <= exported[name], expression


def test_every_exported_metric_is_on_the_dashboard(exported: dict[str, set[str]]) -> None:
    shown = {name for expression in expressions() for name in re.findall(r"\bglcb_\w+", expression)}
    families = {re.sub(r"_(bucket|count|sum)$", "", name) for name in exported}
    assert families == {re.sub(r"_bucket$", "", name) for name in shown}


def test_the_route_of_decisions_is_that_of_the_service() -> None:
    routes = {route for expression in expressions() for route in re.findall(r'route="([^"]+)"', expression)}
    assert routes
    assert routes <= set(openapi.document()["paths"])


def test_panels_have_their_own_ids_and_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_legends_use_labels_of_their_expression() -> None:
    for panel in panels():
        for target in panel["targets"]:
            for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                assert re.search(rf"by \([^)]*\b{label}\b|glcb_(match_rate|pending)", target["expr"]), target
