"""Client for the decision service (``glcb serve``), with the methods and errors of ``glcb.Bandit``.

from glcb.client import Client

homepage = Client("http://localhost:8000").experiment("homepage")
decision = homepage.decide({"country": "FR", "age": 31})
homepage.reward(decision.id, 1)
"""

from glcb._errors import INSTALL_CLIENT, MissingExtra

try:
    from glcb._api.guardrails import Change, Guardrail, Metric
    from glcb._api.requests import ExperimentSettings
    from glcb._api.responses import (
        Decision,
        EvaluationInfo,
        EvaluationResult,
        ExperimentInfo,
        Explanation,
        Ranking,
    )
    from glcb._api.statistics import ArmPage, Curves, SegmentList, Stats
    from glcb._api.workers import WorkerInfo, WorkerList
    from glcb.client.async_client import AsyncClient
    from glcb.client.async_experiment import AsyncExperiment
    from glcb.client.sync_client import Client
    from glcb.client.sync_experiment import Experiment
except ModuleNotFoundError as error:
    raise MissingExtra(f"the client needs {error.name}: {INSTALL_CLIENT}") from error

__all__ = [
    "ArmPage",
    "AsyncClient",
    "AsyncExperiment",
    "Change",
    "Client",
    "Curves",
    "Decision",
    "EvaluationInfo",
    "EvaluationResult",
    "Experiment",
    "ExperimentInfo",
    "ExperimentSettings",
    "Explanation",
    "Guardrail",
    "Metric",
    "Ranking",
    "SegmentList",
    "Stats",
    "WorkerInfo",
    "WorkerList",
]
