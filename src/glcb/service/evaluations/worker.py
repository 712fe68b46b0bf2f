"""The process of an evaluation.

It reads a job from its standard input, evaluates it with a database connection of its own that cannot write,
and sends messages to its standard output. It has a low priority, is the first to go if memory runs out,
and ends when its standard input is closed, which happens at the latest when the service ends.
"""

import contextlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from glcb import _validation
from glcb._api.requests import EvaluationRequest, ExperimentSettings, encode
from glcb._api.responses import EvaluationProgress, EvaluationResult, Level
from glcb._errors import GlcbError
from glcb.bandit import Bandit
from glcb.bandit.reward_rules import RewardRules
from glcb.evaluate import api
from glcb.evaluate.evaluation import Evaluator
from glcb.evaluate.log import find_arms, survey_rows
from glcb.evaluate.rows import Survey
from glcb.service.evaluations import results
from glcb.service.evaluations.event_log import EventLog
from glcb.service.evaluations.policies import Planned, make_bandit
from glcb.service.process.clock import timestamp
from glcb.service.storage.database import Database

COMMAND = (
    sys.executable,
    "-c",
    "import os; os.nice(10); from glcb.service.evaluations.worker import main; main()",
)
"""Starts the process. The priority is lowered before the imports, which take a second."""
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Keeps the process on one core."""

_REPORT_SECONDS = 0.2


class Job(Struct, kw_only=True):
    """What to evaluate."""

    url: str
    """Where the database is."""
    deadline: float
    """Seconds after which a call to the database counts as failed."""
    experiment: int
    """The id of the experiment in the database."""
    now: float
    request: EvaluationRequest
    policies: dict[str, Planned]
    settings: ExperimentSettings
    """The settings of the experiment."""
    max_model_memory: int
    """Bytes to which all models together can grow."""


_JOB = msgspec.json.Decoder(Job)


class Message(Struct, kw_only=True, omit_defaults=True):
    """The progress, the result or the failure of an evaluation."""

    progress: EvaluationProgress | None = None
    result: Raw | UnsetType = UNSET
    conclusion: str = ""
    level: Level = "ok"
    failure: str | None = None
    trace: str = ""
    """Where an unexpected error occurred."""


Send = Callable[[Message], None]


def evaluate(job: Job, send: Send = lambda message: None) -> EvaluationResult:
    """Evaluate the policies of a job; send messages about the progress.

    Raises
    ------
    GlcbError
        The log cannot be read or has no usable decisions, or a policy cannot be evaluated on it.
    """
    database = Database(job.url, job.deadline, read_only=True)
    with contextlib.closing(database):
        request, report = job.request, _Reporter(send)
        rules = RewardRules.from_config(job.settings)
        if request.default_reward is not None:
            rules = replace(rules, default_reward=request.default_reward)
        log = EventLog(database, job.experiment, rules, job.now, request.after, request.before)
        survey = survey_rows(log.rows(report.reading), "the experiment")
        bandits = sum(isinstance(policy, ExperimentSettings) for policy in job.policies.values())
        with _validation.memory_limit(job.max_model_memory // (2 * bandits + 1)):
            plan = api.make_plan(
                survey,
                _policies(job, survey),
                estimators=request.estimators,
                reference=request.reference,
                logging=None,
                seed=request.seed,
                replay=request.replay,
                max_ratio=request.max_ratio,
                min_propensity=None,
                constant_values=request.constant_values,
            )
            evaluator = Evaluator(plan)
            for rows in evaluator.run(plan.reader.chunks(log.rows())):
                report("evaluating", rows, survey.rows)
        return results.result(evaluator.result(), log.times, _notes(log))


def _policies(job: Job, survey: Survey) -> dict[str, api.Policy]:
    """Return the policies, with the arms of the log as the library spells them."""
    for arm in job.settings.arms:
        survey.arms.setdefault(arm, 0)
    arms, index = find_arms(survey)

    def bandit(settings: ExperimentSettings) -> Bandit:
        own = {index[arm] for arm in settings.arms}
        return make_bandit(settings, [arm for position, arm in enumerate(arms) if position in own])

    return {
        name: policy if isinstance(policy, str) else bandit(policy) for name, policy in job.policies.items()
    }


def _notes(log: EventLog) -> list[str]:
    pruned = log.pruned
    if not pruned.sequence:
        return []
    return [f"Events 1 to {pruned.sequence:,} were pruned, the last of them at {timestamp(pruned.at)}."]


class _Reporter:
    """Sends the progress a few times per second."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._sent_at = 0.0

    def reading(self, done: int, total: int) -> None:
        """Report the number of events read."""
        self("reading", done, total)

    def __call__(self, stage: Literal["reading", "evaluating"], done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._sent_at >= _REPORT_SECONDS:
            self._sent_at = now
            self._send(Message(progress=EvaluationProgress(stage, done, total)))


def main() -> None:
    """Evaluate the job on standard input."""
    output = os.dup(1)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)  # nothing else may write between the messages
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    job = _JOB.decode(sys.stdin.buffer.readline())
    threading.Thread(target=_exit_with_service, daemon=True).start()
    with os.fdopen(output, "wb") as pipe:

        def send(message: Message) -> None:
            pipe.write(encode(message) + b"\n")
            pipe.flush()

        send(_outcome(job, send))
    os._exit(0)  # without waiting for the thread


def _outcome(job: Job, send: Send) -> Message:
    try:
        result = evaluate(job, send)
    except GlcbError as error:
        return Message(failure=str(error))
    except MemoryError:
        return Message(failure="there is not enough memory")
    except BrokenPipeError:
        raise
    except Exception as error:  # damaged data can raise anything
        return Message(failure=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
    return Message(result=Raw(encode(result)), conclusion=result.conclusion, level=result.level)


def _exit_with_service() -> None:
    """Wait until standard input is closed, then end the process."""
    while os.read(0, 1024):
        pass
    os._exit(1)
