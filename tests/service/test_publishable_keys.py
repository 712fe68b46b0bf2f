"""Publishable keys: one experiment, single decisions and rewards, a limited rate, and nothing to read."""

import json
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete

from glcb._api.errors import ERROR_CODES
from glcb._api.guardrails import Guardrail, Metric
from glcb._api.requests import ExperimentChanges, RankingRequest
from glcb._api.responses import Check, Ranking
from glcb._errors import InvalidSettings, MissingExtra, StorageError
from glcb.service.access import api_keys
from glcb.service.core.experiment import Experiment
from glcb.service.core.guard import RecordedReward
from glcb.service.errors import ApiError
from glcb.service.http.operations import OPERATIONS
from glcb.service.process.metrics import Activity
from glcb.service.storage.tables import events, snapshots
from glcb.service.views import health
from glcb.service.views.stats import stats
from tests.support.asgi import Answer, E, Service, create_experiment
from tests.support.builders import RecordedExperiment, open_test_database, replay

Ask = Callable[..., Awaitable[Answer]]
DECISION, RANKING = f"{E}/decisions", f"{E}/rankings"


@pytest.fixture
async def ask(service: Service) -> Ask:
    """Create the experiment at ``E``, and return a function that sends requests with its publishable key."""
    await create_experiment(service)
    secret = service.add_key("page", "publish", ["home"])

    async def send(method: str, path: str, body: Any = None, **more: Any) -> Answer:
        return await service.ask(method, path, body, key=secret, **more)

    return send


@pytest.mark.parametrize("experiments", [[], ["home", "cart"]])
def test_a_publishable_key_needs_exactly_one_experiment(tmp_path: Path, experiments: list[str]) -> None:
    database = open_test_database(tmp_path)
    with pytest.raises(InvalidSettings, match="exactly one experiment"):
        api_keys.add_key(database, "page", "publish", experiments)
    assert api_keys.list_keys(database) == []


async def test_a_publishable_key_permits_three_operations_only(ask: Ask) -> None:
    permitted = set()
    for operation in OPERATIONS:
        if operation.role is None:
            continue
        path = operation.path.format(name="home", id="1", arm="a", worker="a")
        answer = await ask(operation.method, path, {})
        if answer.status != 403:
            permitted.add(operation.name)
        foreign = await ask(operation.method, path.replace("home", "other"), {})
        assert foreign.status == (404 if "home" in path else 403)
    assert permitted == {"decide", "rank", "reward"}


async def test_a_publishable_key_sees_the_chosen_arms_only(ask: Ask) -> None:
    decision = (await ask("POST", DECISION, {"context": {"x": 1}})).data
    assert set(decision) == {"id", "arm"}
    ranking = (await ask("POST", RANKING, {"context": {"x": 1}, "k": 2})).data
    assert set(ranking) == {"id", "arms"}
    for id_ in (decision["id"], ranking["id"]):
        accepted = await ask("POST", f"{DECISION}/{id_}/reward", {"value": 1})
        assert accepted.data == {"id": id_, "status": "accepted"}


@pytest.mark.parametrize(("path", "more"), [(DECISION, {}), (RANKING, {"k": 2})], ids=["decide", "rank"])
async def test_ids_cannot_be_chosen_or_guessed_and_repeat_with_the_request(
    service: Service, ask: Ask, path: str, more: dict[str, Any]
) -> None:
    body = {"context": {"x": 1}, **more}
    refused = await ask("POST", path, {**body, "id": "visit-1"})
    assert (refused.status, refused.code) == (403, "forbidden")
    ids = [(await ask("POST", path, body)).data["id"] for _ in range(2)]
    keyed = [await ask("POST", path, {**body, "idempotency_key": key}) for key in ("k1", "k1", "k2")]
    assert keyed[0] == keyed[1]
    ids += [answer.data["id"] for answer in keyed[1:]]
    assert len({id_[:8] for id_ in ids}) == 4, "the ids have nothing in common"
    assert all(len(id_) == 32 for id_ in ids)
    secret = service.add_key("shop", "decide")
    own = await service.ask("POST", path, {**body, "idempotency_key": "k1"}, key=secret)
    assert own.status == 200, "visitors cannot take the idempotency keys of others"
    assert own.data["id"] not in ids


@pytest.mark.settings(publish_rate=5)
async def test_requests_over_the_rate_are_refused_until_the_key_has_rested(
    service: Service, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 10**12
    monkeypatch.setattr("time.monotonic_ns", lambda: now)

    async def accepted(requests: int) -> int:
        answers = [
            await ask("POST", RANKING if number % 2 else DECISION, {"context": {}, "k": 1})
            for number in range(requests)
        ]
        late = [answer for answer in answers if answer.status == 429]
        assert all(answer.code == "rate_limited" for answer in late)
        assert all(answer.headers["retry-after"] == "1" for answer in late)
        return len(answers) - len(late)

    assert await accepted(8) == 5
    now += 10**9 // 5
    assert await accepted(3) == 1
    now += 10**11
    assert await accepted(8) == 5
    team = service.add_key("team", "decide")
    for _ in range(8):
        assert (await service.ask("POST", DECISION, {"context": {}}, key=team)).status == 200


# ---- errors -----------------------------------------------------------------------------------------

SECRET = "cannot read /srv/data/glcb.db: stored outcome b'42'"


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (StorageError(SECRET), 503, "storage_unavailable"),
        (ApiError("experiment_broken", SECRET), 500, "experiment_broken"),
        (MissingExtra(SECRET), 422, "invalid_settings"),
        (RuntimeError(SECRET), 500, "internal_error"),
    ],
)
@pytest.mark.parametrize(
    ("path", "body"),
    [
        (DECISION, {"context": {}}),
        (RANKING, {"context": {}, "k": 1}),
        (f"{DECISION}/1/reward", {"value": 1}),
    ],
    ids=["decide", "rank", "reward"],
)
async def test_details_of_a_failure_are_for_the_log_and_for_other_keys(
    service: Service,
    ask: Ask,
    caplog: pytest.LogCaptureFixture,
    failure: Exception,
    status: int,
    code: str,
    path: str,
    body: dict[str, Any],
) -> None:
    team = service.add_key("team", "decide")

    async def fail(*_: object, **__: object) -> list[bytes | ApiError]:
        raise failure

    service.engine.apply_many = fail  # type: ignore[method-assign]
    for _ in range(3):
        public = await ask("POST", path, body)
        assert (public.status, public.code) == (status, code)
        assert public.message == ERROR_CODES[code].meaning
    private = await service.ask("POST", path, body, key=team)
    assert (private.status, private.code) == (status, code)
    assert (private.message == SECRET) == (code != "internal_error")
    if code != "internal_error":
        (record,) = [one for one in caplog.records if getattr(one, "reason", None) == SECRET]
        assert record.levelname == "WARNING"


async def test_a_lost_event_shows_neither_paths_nor_outcomes_to_visitors(service: Service, ask: Ask) -> None:
    for _ in range(3):
        assert (await ask("POST", DECISION, {"context": {"x": 1}})).status == 200
    await service.engine.cache.unload(service.engine.loaded["home"])
    with service.storage.write() as connection:
        connection.execute(delete(events).where(events.c.sequence == 2))
        connection.execute(delete(snapshots))
    answer = await ask("POST", DECISION, {"context": {"x": 1}})
    assert (answer.status, answer.code) == (500, "experiment_broken")
    assert answer.message == "The experiment cannot be loaded."


async def test_a_client_without_a_key_sees_no_details(
    service: Service, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise StorageError(SECRET)

    monkeypatch.setattr(service.authenticator.keyring, "refresh", fail)
    for method, path in (("POST", DECISION), ("GET", f"{E}/stats")):
        service.authenticator.keyring.refreshed_at = 0.0
        answer = await service.ask(method, path, {"context": {}}, key="unknown")
        assert (answer.status, answer.message) == (503, ERROR_CODES["storage_unavailable"].meaning)
    service.engine.journal.failure = SECRET
    ready = await service.ask("GET", "/readyz")
    assert (ready.status, ready.message) == (503, ERROR_CODES["storage_unavailable"].meaning)
    service.engine.journal.failure = None


# ---- guardrails -------------------------------------------------------------------------------------

GUARDED: dict[str, Any] = {
    "control": "a",
    "baseline": "control",
    "traffic": 0.5,
    "policy": "uniform",
    "metrics": {"revenue": Metric(range=(0.0, 10.0), default=0.0)},
    "guardrails": [
        Guardrail(metric="revenue", max_fall=0.05, pauses="experiment"),
        Guardrail(max_fall=0.05, pauses="experiment"),
    ],
}
TIMEOUT = {"reward_timeout": 50.0, "default_reward": 0.0}


class Visited(RecordedExperiment):
    """An experiment without any difference between its arms, and a visitor who reports what he likes."""

    def __init__(self, **changes: Any) -> None:
        super().__init__(**GUARDED, **changes)
        rng = random.Random(10_000)
        for number in range(300):
            decision = self.decide({"x": number % 5})
            self.reward(decision.id, float(rng.random() < 0.5), metrics={"revenue": 10 * rng.random()})

    def report(self, decision: str, value: float, revenue: float, **more: Any) -> None:
        metrics = {"revenue": revenue}
        reward = RecordedReward(id=decision, value=value, metrics=metrics, public=True, **more)
        self.apply("reward", reward)

    def rank(self) -> Ranking:
        answer = self.apply("rank", RankingRequest(context={"x": 1}, k=2))
        return Ranking(**json.loads(answer))

    @property
    def is_broken(self) -> bool:
        return self.experiment.find_breach(0)[1] is not None


def _praise_the_control(visited: Visited) -> None:
    decision = visited.decide({"x": 1})
    good = decision.arm == "a"
    visited.report(decision.id, float(good), 10.0 * good)


def _report_only_the_control(visited: Visited) -> None:
    decision = visited.decide({"x": 1})
    if decision.arm == "a":
        visited.report(decision.id, 1.0, 10.0)


def _report_all_but_the_control(visited: Visited) -> None:
    decision = visited.decide({"x": 1})
    if decision.arm != "a":
        visited.report(decision.id, 0.0, 0.0)


def _dismiss_the_control(visited: Visited) -> None:
    ranking = visited.rank()
    if ranking.arms[0] == "a":
        visited.report(ranking.id, 0.0, 0.0, examined=0)


def _dismiss_all_but_the_control(visited: Visited) -> None:
    ranking = visited.rank()
    if ranking.arms[0] != "a":
        visited.report(ranking.id, 0.0, 0.0, examined=0)


def _complete_rankings_without_the_control(visited: Visited) -> None:
    ranking = visited.rank()
    if "a" not in ranking.arms:
        visited.report(ranking.id, 0.0, 0.0, slot=0, examined=2)


ATTACKS = [
    _praise_the_control,
    _report_only_the_control,
    _report_all_but_the_control,
    _dismiss_the_control,
    _dismiss_all_but_the_control,
    _complete_rankings_without_the_control,
]


@pytest.mark.parametrize("rules", [{}, TIMEOUT], ids=["without timeout", "with timeout"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_visitors_cannot_break_a_guardrail(attack: Callable[[Visited], None], rules: dict[str, Any]) -> None:
    visited = Visited(**rules)
    for _ in range(700):
        attack(visited)
        assert not visited.is_broken
    if not rules:
        assert {one.n for one in stats(visited.experiment, Activity()).guardrails} == {300}


def test_a_setting_lets_guardrails_count_what_visitors_report() -> None:
    visited = Visited(trust_publishable=True)
    visits = 0
    while not visited.is_broken and visits < 700:
        _praise_the_control(visited)
        visits += 1
    assert visits < 700


def test_a_real_fall_breaks_a_guardrail_whatever_visitors_report() -> None:
    visited = Visited()
    rounds = 0
    while not visited.is_broken and rounds < 700:
        _report_all_but_the_control(visited)
        decision = visited.decide({"x": 1})
        visited.reward(decision.id, float(decision.arm == "a"), metrics={"revenue": 5.0})
        rounds += 1
    assert rounds < 700


@pytest.mark.parametrize("rules", [{}, TIMEOUT], ids=["without timeout", "with timeout"])
def test_a_replay_knows_what_visitors_reported(rules: dict[str, Any]) -> None:
    visited = Visited(**rules)
    for number in range(60):
        ATTACKS[number % len(ATTACKS)](visited)
        if number == 30:
            visited.apply("change", ExperimentChanges(trust_publishable=True), "team")
    for restart in (0, 650):
        assert replay(visited.events, restart).snapshot().digest() == visited.experiment.snapshot().digest()


def _guardrail_check(experiment: Experiment) -> Check:
    (check,) = [one for one in health.checks(experiment) if one.check == "guardrails"]
    return check


def test_a_guardrail_without_data_says_so_in_health() -> None:
    assert "guardrails" not in {one.check for one in health.checks(RecordedExperiment().experiment)}
    recorded = RecordedExperiment(**GUARDED)
    for number in range(120):
        decision = recorded.decide({"x": 1})
        recorded.apply(
            "reward", RecordedReward(id=decision.id, value=1.0, metrics={"revenue": 1.0}, public=True)
        )
        assert _guardrail_check(recorded.experiment).ok is (None if number < 99 else False)
    text = _guardrail_check(recorded.experiment).text
    assert "'revenue' gets no data: all 120 reported values came with publishable API keys" in text
    recorded.apply("change", ExperimentChanges(trust_publishable=True))
    assert _guardrail_check(recorded.experiment).ok
    recorded.apply("change", ExperimentChanges(trust_publishable=None))
    recorded.reward(recorded.decide({"x": 1}).id, 1.0)
    assert _guardrail_check(recorded.experiment).ok is False, "the reward has data now, the revenue has none"
    recorded.reward(recorded.decide({"x": 1}).id, 1.0, metrics={"revenue": 1.0})
    assert _guardrail_check(recorded.experiment).ok


async def test_the_event_of_a_reward_says_whether_the_key_is_publishable(service: Service, ask: Ask) -> None:
    admin = service.add_key("team", "admin")
    guarded = {"control": "a", "guardrails": [{"max_fall": 0.05, "pauses": "experiment"}]}
    assert (await service.ask("PATCH", E, guarded, key=admin)).status == 200
    ids = [(await ask("POST", DECISION, {"context": {"x": 1}})).data["id"] for _ in range(4)]
    assert (await ask("POST", f"{DECISION}/{ids[0]}/reward", {"value": 1})).status == 200
    single = await service.ask("POST", f"{DECISION}/{ids[1]}/reward", {"value": 1}, key=admin)
    batch = {"rewards": [{"id": ids[2], "value": 1}]}
    assert single.status == (await service.ask("POST", f"{E}/rewards", batch, key=admin)).status == 200
    forged = await ask("POST", f"{DECISION}/{ids[3]}/reward", {"value": 1, "public": False})
    assert (forged.status, forged.code) == (422, "invalid_request")
    events = [event for event in service.storage.events(1, 0) if event.kind == "reward"]
    assert [b"public" in event.request for event in events] == [True, False, False]
    (guardrail,) = (await service.ask("GET", f"{E}/stats", key=admin)).data["guardrails"]
    assert guardrail["n"] == 2
    exported = (await service.ask("GET", f"{E}/export", key=admin)).content
    assert exported.count(b'"event":"reward"') == 3
