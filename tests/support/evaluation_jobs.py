"""Experiments with decisions and rewards, and jobs that evaluate them."""

import random
from typing import Any

import msgspec

from glcb._api.requests import (
    EvaluationRequest,
)
from glcb.service.config import ServiceSettings
from glcb.service.evaluations import policies
from glcb.service.evaluations.worker import Job
from glcb.service.storage.database import Database
from tests.support.builders import RecordedExperiment


def recorded(count: int, **settings: Any) -> RecordedExperiment:
    """Return an experiment in which arm b earns 1 for small ages and arm a for large ones."""
    experiment = RecordedExperiment(**{"exploration": 0.5, **settings})
    draw = random.Random(count)
    for _ in range(count):
        age = draw.random()
        decision = experiment.decide({"age": age})
        experiment.reward(decision.id, float(decision.arm == ("b" if age < 0.5 else "a")))
    return experiment


def stored_in(database: Database, experiment: RecordedExperiment) -> int:
    number = database.create("home", experiment.events[0])
    database.append([(number, *event) for event in experiment.events[1:]])
    return number


def job(database: Database, number: int, experiment: RecordedExperiment, **request: Any) -> Job:
    asked = msgspec.convert(request, EvaluationRequest)
    settings = experiment.experiment.state.settings
    return Job(
        url=database.url.render_as_string(hide_password=False),
        deadline=10.0,
        experiment=number,
        now=experiment.now,
        request=asked,
        policies=policies.plan(asked, settings, ServiceSettings()),
        settings=settings,
        max_model_memory=10**9,
    )
