"""The router: a bandit that chooses a language model for each prompt, taking prices into account.

The bandit learns only the quality of each model. Costs are predicted separately and subtracted from the
scores when a model is chosen:

    score = expected quality + bonus − (λ + λ_t) · cost / unit − latency penalty · seconds

Models share one network, whose inputs are the features of the prompt and of the model, including its name. λ
is fixed, and λ_t follows a budget. So prices, budgets and penalties can change at any time without learning
again. The probabilities of a decision use the final scores.
"""

import secrets
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any, Self

import numpy as np

from glcb import _model_file
from glcb._arrays import Arrays
from glcb._errors import InvalidInput, InvalidSettings
from glcb._model_file import Snapshot
from glcb._prompts import PROMPT_COUNTS, prompt_counts
from glcb._types import Rewards, reward_range
from glcb.bandit import Bandit
from glcb.bandit.candidates import parse_arms
from glcb.explain import Explanation
from glcb.route.costs import usage_inputs
from glcb.route.embedding import Embed, Embedder
from glcb.route.ledger import Ledger, check_amounts
from glcb.route.models import Model, Route, positive

EMBEDDING = "embedding"
"""The name of the feature that holds the embedding of a prompt."""
NAME = "name"
"""The feature of a model that holds its name."""


class Router:
    """Chooses a language model for each prompt, learns from answer quality, and keeps a budget.

    All methods are thread-safe. A call with invalid input raises an error and changes nothing.

    Parameters
    ----------
    models : dict
        The models by name: a :class:`Model` each, or its price.
    budget : float, default None
        The target for the mean cost of a request, in dollars. None means no limit.
    cost_penalty : float, default 0.0
        Quality that a cost of one unit must be worth, in addition to the budget penalty. The unit is the
        budget, or without a budget, the cost of the most expensive model.
    latency_penalty : float, default 0.0
        Quality that a second of latency must be worth.
    max_cost, max_latency : float, default None
        Models with a larger expected cost in dollars, or latency in seconds, are not chosen. If no model is
        within the limits, the cheapest is chosen.
    embed : function, default None
        Returns the embedding of a prompt: a vector of numbers.
    embed_timeout : float, default 0.05
        Seconds to wait for the embedding. If it is late or fails, the prompt is routed by a bandit that
        ignores prompt features.
    rewards : "binary" or (float, float), default (0.0, 1.0)
        The range of the quality.
    pacing_rate : float, default 0.0015
        How fast the penalty follows the budget. Over n requests, the mean cost differs from the budget by
        about penalty / (rate · n): a larger rate reaches the budget sooner, a smaller rate makes choices
        steadier.
    max_penalty : float, default 10.0
        The largest budget penalty.
    exploration : float, default 0.01
        Probability of choosing a model other than the one with the best score. Models whose cost outweighs
        any quality are not chosen.
    trials : int, default 5
        Number of initial requests for every model that costs at most twice the budget.
    half_life : int, default None
        Number of decisions after which evidence counts half as much. None disables forgetting.
    bandit_settings : dict, default None
        Further arguments of :class:`~glcb.Bandit`, such as `policy`, `schema` or `max_pending`.
    seed : int, default 0
        Seed of all random numbers.

    Raises
    ------
    InvalidSettings
        If an argument is invalid or conflicts with another.

    Examples
    --------
    >>> router = Router({"small": 0.1, "large": Model(price=5.0)}, budget=0.001)
    >>> route = router.route("Is 7 prime?")
    >>> route.model in router.models
    True
    >>> router.reward(route.id, 0.9, cost=0.0002)
    True
    """

    def __init__(
        self,
        models: Mapping[str, Model | float],
        *,
        budget: float | None = None,
        cost_penalty: float = 0.0,
        latency_penalty: float = 0.0,
        max_cost: float | None = None,
        max_latency: float | None = None,
        embed: Embed | None = None,
        embed_timeout: float = 0.05,
        rewards: Rewards = (0.0, 1.0),
        pacing_rate: float = 0.0015,
        max_penalty: float = 10.0,
        exploration: float = 0.01,
        trials: int = 5,
        half_life: int | None = None,
        bandit_settings: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        if not models:
            raise InvalidSettings(f"models must be a dict of models by name, got {models!r}")
        checked = {name: _to_model(name, model) for name, model in models.items()}
        settings: dict[str, Any] = dict(bandit_settings or {})
        shared: dict[str, Any] = {
            "rewards": rewards,
            "exploration": exploration,
            "half_life": half_life,
            "seed": seed,
        }
        repeated = settings.keys() & (shared.keys() | {"arms"})
        if repeated:
            raise InvalidSettings(f"{min(repeated)} is an argument of Router: omit it in bandit_settings")
        self._lock = threading.RLock()
        arms = {name: _arm_features(name, model) for name, model in checked.items()}
        self._bandit = Bandit(arms, **shared, **settings)
        self._fallback = Bandit(list(checked), **shared, spare_slots=0)
        """Ignores the prompt. It learns from every reward, so that it is trained when needed."""
        low, high = reward_range(rewards)
        self._ledger = Ledger(
            checked,
            budget,
            cost_penalty,
            latency_penalty,
            max_cost,
            max_latency,
            pacing_rate,
            max_penalty,
            trials,
            high - low,
            self._bandit.get_params()["max_pending"],
        )
        self._embed_timeout = positive("embed_timeout", embed_timeout)
        self._embedder = None if embed is None else Embedder(embed, self._embed_timeout)

    # ---- routing --------------------------------------------------------------------------------

    def route(
        self,
        prompt: str | None = None,
        *,
        context: Mapping[str, Any] | None = None,
        costs: Mapping[str, float] | None = None,
        eligible: Iterable[str] | None = None,
        max_cost: float | None = None,
        max_latency: float | None = None,
        id: str | None = None,  # noqa: A002 (the name of the attribute of a route)
    ) -> Route:
        """Choose a model for a prompt.

        Parameters
        ----------
        prompt : str, optional
            The prompt. Its counts, and its embedding, are features.
        context : dict, optional
            Further features, such as the product area or the language. Can include an embedding.
        costs : dict, optional
            Known costs of this request in dollars, by model. Other costs are predicted.
        eligible : iterable of str, optional
            The models to choose from. Default: all.
        max_cost, max_latency : float, optional
            Limits for this request. Default: the limits of the router.
        id : str, optional
            The id of the decision.

        Returns
        -------
        Route
            The model, the id for its cost and quality, and the probability of each model.

        Raises
        ------
        InvalidInput
            If there is neither a prompt nor a context, or an argument is invalid.
        UnknownArm
            If `eligible` or `costs` names a model that does not exist.
        DuplicateDecision
            If a decision with this id exists.
        """
        features = self._features(prompt, context)
        is_fallback = features is None
        with self._lock:
            ledger = self._ledger
            quote = ledger.quote(usage_inputs(_counts(prompt) if features is None else features), costs)
            allowed = ledger.worthwhile(quote, ledger.allowed(quote, eligible, max_cost, max_latency))
            terms = (quote.cost_terms + quote.latency_terms).tolist()
            offsets = {name: terms[ledger.index(name)] for name in allowed}
            if is_fallback and id is None:
                id = f"fallback-{secrets.token_hex(8)}"  # noqa: A001
            bandit = self._fallback if is_fallback else self._bandit
            decision = bandit.decide(features or {}, eligible=allowed, offsets=offsets, id=id)
            model, names, penalty = str(decision.arm), list(ledger.models), ledger.penalty
            ledger.charge(decision.id, model, quote, is_fallback)
            probabilities = dict.fromkeys(names, 0.0)
            probabilities |= {str(arm): share for arm, share in decision.probabilities.items()}
            return Route(
                model,
                decision.id,
                decision.propensity,
                probabilities,
                dict(zip(map(str, decision.arms), decision.values.tolist(), strict=True)),
                dict(zip(names, quote.costs.tolist(), strict=True)),
                penalty,
                is_fallback,
            )

    def _features(self, prompt: str | None, context: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return the features of a request; None if the embedding is missing."""
        if prompt is None and not context:
            raise InvalidInput("pass a prompt, or its features as context")
        if prompt is not None and not isinstance(prompt, str):
            raise InvalidInput(f"the prompt must be a string, got {type(prompt).__name__}")
        features = {**_counts(prompt), **dict(context or {})}
        if prompt is not None and self._embedder is not None and EMBEDDING not in features:
            vector = self._embedder(prompt)
            if vector is None:
                return None
            features[EMBEDDING] = vector
        return features

    # ---- learning -------------------------------------------------------------------------------

    def complete(self, route: str, *, cost: float | None = None, latency: float | None = None) -> None:
        """Report the cost and the latency of an answer, as soon as they are known.

        Without a report, the expected cost counts.

        Parameters
        ----------
        route : str
            The id of the decision.
        cost : float, optional
            Dollars.
        latency : float, optional
            Seconds.

        Raises
        ------
        UnknownDecision
            If no decision of this router has this id.
        InvalidInput
            If an amount is negative, or has already been reported.
        """
        with self._lock:
            self._ledger.complete(route, cost, latency)

    def reward(
        self,
        route: str,
        quality: float,
        *,
        cost: float | None = None,
        latency: float | None = None,
        idempotency_key: str | int | None = None,
    ) -> bool:
        """Learn the quality of an answer.

        Parameters
        ----------
        route : str
            The id of the decision.
        quality : float
            The quality, within the range of `rewards`.
        cost, latency : float, optional
            As for :meth:`complete`. Ignored if already reported.
        idempotency_key : str or int, optional
            Makes retries safe: of several rewards with the same key, only the first counts.

        Returns
        -------
        bool
            False if the decision already had a reward with this key, else True.

        Raises
        ------
        InvalidReward, UnknownDecision, ClosedDecision, DuplicateReward
            As for :meth:`glcb.Bandit.reward`.
        InvalidInput
            If an amount is negative.
        """
        with self._lock:
            ledger = self._ledger
            check_amounts(cost, latency)
            pending = ledger.pending.get(route)
            is_fallback = pending is not None and pending.is_fallback
            bandit = self._fallback if is_fallback else self._bandit
            if not bandit.reward(route, quality, idempotency_key=idempotency_key):
                return False
            if pending is None:
                return True
            ledger.complete(
                route, None if pending.has_cost else cost, None if pending.has_latency else latency
            )
            if pending.model in ledger.models:
                ledger.count_reward(pending.model, quality)
                if not is_fallback and self._embedder is not None:
                    copied = self._fallback.decide({}, eligible=[pending.model])
                    self._fallback.reward(copied.id, quality)
            return True

    def explain(self, prompt: str | None = None, *, context: Mapping[str, Any] | None = None) -> Explanation:
        """Explain the score of every model: the contributions of the prompt, the model and its cost.

        Nothing is learned or counted. The expected cost is a feature named ``cost``; its contribution is what
        the penalty subtracts. The contributions and the base add up to the value, which includes costs.

        Parameters
        ----------
        prompt, context
            As for :meth:`route`.

        Returns
        -------
        Explanation
            The contributions for each model.

        Raises
        ------
        InvalidInput
            If there is neither a prompt nor a context.
        """
        features = self._features(prompt, context)
        with self._lock:
            bandit = self._fallback if features is None else self._bandit
            base = bandit.explain(features or {})
            quote = self._ledger.quote(usage_inputs(_counts(prompt) if features is None else features))
            rows = [self._ledger.index(arm) for arm in base.arms]
            terms = {"cost": quote.cost_terms[rows]}
            texts = {"cost": [f"${cost:.3g}" for cost in quote.costs[rows]]}
            if self._ledger.latency_penalty > 0:
                terms["latency"] = quote.latency_terms[rows]
                texts["latency"] = [f"{second:.3g} s" for second in quote.seconds[rows]]
        own = base.own_values or tuple(base.feature_values for _ in base.arms)
        return replace(
            base,
            features=(*base.features, *terms),
            feature_values=(*base.feature_values, *("of the model" for _ in terms)),
            contributions=np.column_stack([base.contributions, *terms.values()]),
            values=base.values + sum(terms.values()),
            own_values=tuple(
                (*values, *(texts[name][row] for name in terms)) for row, values in enumerate(own)
            ),
        )

    # ---- models, prices and budget --------------------------------------------------------------

    @property
    def models(self) -> dict[str, Model]:
        """The models by name."""
        with self._lock:
            return dict(self._ledger.models)

    @property
    def bandit(self) -> Bandit:
        """The bandit that learns the quality. Use it to write a log; decide with the router."""
        return self._bandit

    @property
    def budget(self) -> float | None:
        """The target for the mean cost of a request, in dollars. It can change at any time."""
        return None if self._ledger.pacer is None else self._ledger.pacer.budget

    @budget.setter
    def budget(self, budget: float | None) -> None:
        with self._lock:
            self._ledger.set_budget(budget)

    @property
    def penalty(self) -> float:
        """The penalty on a cost of one unit: the router's own plus the budget penalty."""
        return self._ledger.penalty

    @property
    def summary(self) -> dict[str, Any]:
        """Requests, spend, mean cost, penalty and savings, and requests, quality and mean cost by model.

        The savings are relative to the expected cost of always choosing the most expensive model.
        """
        with self._lock:
            return self._ledger.summary

    def set_price(self, model: str, price: float) -> None:
        """Change the price of a model. Learned quality and usage remain.

        Parameters
        ----------
        model : str
            The name of the model.
        price : float
            Dollars per unit of usage.

        Raises
        ------
        UnknownArm
            If there is no such model.
        InvalidSettings
            If the price is not a positive number.
        """
        with self._lock:
            models = self._ledger.models
            self._ledger.index(model)
            models[model] = replace(models[model], price=price)

    def add_model(self, name: str, model: Model | float) -> None:
        """Add a model. It starts with what is known about all models, and about models with its features.

        Parameters
        ----------
        name : str
            The name of the new model.
        model : Model or float
            The model, or its price.

        Raises
        ------
        InvalidSettings
            If the name is in use.
        """
        with self._lock:
            new = _to_model(name, model)
            self._bandit.add_arm(name, features=_arm_features(name, new))
            self._fallback.add_arm(name)
            self._ledger.add(name, new)

    def remove_model(self, name: str) -> None:
        """Remove a model. What other models have learned from it remains.

        Parameters
        ----------
        name : str
            The name of the model.

        Raises
        ------
        UnknownArm
            If there is no such model.
        InvalidSettings
            If it is the only model.
        """
        with self._lock:
            self._ledger.index(name)
            if len(self._ledger.models) == 1:
                raise InvalidSettings(f"{name!r} is the only model: add another one before you remove it")
            self._bandit.remove_arm(name)
            self._fallback.remove_arm(name)
            self._ledger.remove(name)

    # ---- saving ---------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Save the router to a file, without its embedding function. The file is replaced atomically.

        Parameters
        ----------
        path : str or path
            The file to write.

        Raises
        ------
        ModelFileError
            If the file cannot be written.
        """
        with self._lock:
            snapshot = self._snapshot()
        _model_file.write(path, snapshot)

    @classmethod
    def load(cls, path: str | PathLike[str], *, embed: Embed | None = None) -> Self:
        """Load a router. It continues exactly as the saved one would have.

        Parameters
        ----------
        path : str or path
            A file written by :meth:`save`.
        embed : function, optional
            Returns the embedding of a prompt. It is not part of the file.

        Returns
        -------
        Router
            The loaded router.

        Raises
        ------
        ModelFileError
            If the file cannot be read, is damaged, or holds something else.
        """
        return _model_file.load(path, "Router", lambda snapshot: cls._from_snapshot(snapshot, embed))

    def _snapshot(self) -> Snapshot:
        ledger = self._ledger
        metadata, own = ledger.snapshot()
        bandits = {"bandit": self._bandit._snapshot(), "fallback": self._fallback._snapshot()}
        parts = {**{name: snapshot.arrays for name, snapshot in bandits.items()}, "ledger": own}
        arguments = {
            "models": {
                name: {"price": model.price, "features": list(model.features)}
                for name, model in ledger.models.items()
            },
            "budget": self.budget,
            "cost_penalty": ledger.cost_penalty,
            "latency_penalty": ledger.latency_penalty,
            "max_cost": ledger.max_cost,
            "max_latency": ledger.max_latency,
            "embed_timeout": self._embed_timeout,
            "pacing_rate": ledger.pacing_rate,
            "max_penalty": ledger.max_penalty,
            "trials": ledger.trials,
        }
        about = {
            "ledger": metadata,
            "bandits": {
                name: {
                    "arguments": snapshot.arguments,
                    "generator": snapshot.generator,
                    "about": snapshot.about,
                }
                for name, snapshot in bandits.items()
            },
        }
        arrays = {
            f"{part}.{name}": array.copy() for part, found in parts.items() for name, array in found.items()
        }
        return Snapshot("Router", arguments, None, arrays, about)

    @classmethod
    def _from_snapshot(cls, snapshot: Snapshot, embed: Embed | None) -> Self:
        parts: dict[str, Arrays] = {"bandit": {}, "fallback": {}, "ledger": {}}
        for name, array in snapshot.arrays.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = array
        main, fallback = (
            Bandit._from_snapshot(Snapshot("Bandit", arrays=parts[name], **snapshot.about["bandits"][name]))
            for name in ("bandit", "fallback")
        )
        params, arguments = main.get_params(), dict(snapshot.arguments)
        arms = parse_arms(params["arms"])
        models = {
            name: Model(
                price=saved["price"],
                features={feature: arms[name][feature] for feature in saved["features"]},
            )
            for name, saved in arguments.pop("models").items()
        }
        settings = {"max_pending": params["max_pending"]}
        router = cls(models, embed=embed, rewards=params["rewards"], bandit_settings=settings, **arguments)
        router._bandit, router._fallback = main, fallback
        router._ledger.restore(snapshot.about["ledger"], parts["ledger"])
        return router


def _to_model(name: object, model: Model | float) -> Model:
    if not isinstance(name, str):
        raise InvalidSettings(f"the name of a model must be a string, got {name!r}")
    return model if isinstance(model, Model) else Model(price=model)


def _arm_features(name: str, model: Model) -> dict[str, Any]:
    """Return the features of a model, including its name, so that models with equal features can differ."""
    return {NAME: name, **model.features}


def _counts(prompt: str | None) -> dict[str, Any]:
    return {} if prompt is None else dict(zip(PROMPT_COUNTS, prompt_counts(prompt), strict=True))
