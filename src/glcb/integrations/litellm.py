"""LiteLLM: a routing strategy that chooses the deployment of every request with a router."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from glcb._errors import GlcbError, InvalidInput, MissingExtra, install_command
from glcb.route import Router

__all__ = ["RoutingStrategy"]

ROUTE_ID = "route_id"
"""The request metadata field that holds the id of the route."""


class RoutingStrategy:
    """A custom routing strategy for ``litellm.Router``.

    The models of the router are named like the model in ``litellm_params`` of the deployments. Deployments of
    the requested group are eligible. LiteLLM reports the cost and latency of every answer to the router;
    report the quality with ``router.reward(route_id, quality)``.

    Parameters
    ----------
    router : Router
        The router. It needs a model for every deployment.
    deployments : litellm.Router
        The router of LiteLLM that calls the models.

    Raises
    ------
    InvalidInput
        If a deployment is not a model of the router.
    """

    def __init__(self, router: Router, deployments: Any) -> None:
        self.router = router
        self._deployments = deployments
        names = {deployment_name(deployment) for deployment in deployments.model_list}
        if missing := sorted(names - router.models.keys()):
            raise InvalidInput(f"the router has no model {missing[0]!r}: add one for every deployment")

    def attach(self) -> None:
        """Use this strategy for all requests of LiteLLM's router, and report costs and latencies.

        Raises
        ------
        MissingExtra
            If LiteLLM is not installed.
        """
        try:
            import litellm
        except ImportError as error:
            raise MissingExtra(f"this strategy needs litellm: {install_command('litellm')}") from error
        self._deployments.set_custom_routing_strategy(self)
        litellm.success_callback.append(self.on_success)

    def get_available_deployment(
        self,
        model: str,
        messages: list[dict[str, str]] | None = None,
        input: str | list[Any] | None = None,  # noqa: A002 (the name of LiteLLM)
        specific_deployment: bool | None = False,
        request_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Return the deployment for a request.

        Parameters
        ----------
        model : str
            The requested group of deployments.
        messages : list of dict, optional
            The messages of a chat.
        input : str or list, optional
            The input of other requests.
        specific_deployment : bool, optional
            Not used.
        request_kwargs : dict, optional
            The arguments of the request. The id of the route is in its ``metadata``, and is added if there
            is none.

        Returns
        -------
        dict
            An element of the list of deployments.

        Raises
        ------
        InvalidInput
            If there is no deployment in this group.
        """
        by_name = {
            deployment_name(deployment): deployment
            for deployment in self._deployments.model_list
            if deployment["model_name"] == model
        }
        if not by_name:
            raise InvalidInput(f"there is no deployment in the group {model!r}")
        request = {} if request_kwargs is None else request_kwargs
        metadata = request.setdefault("metadata", {})
        route = self.router.route(_prompt(messages, input), eligible=list(by_name), id=metadata.get(ROUTE_ID))
        metadata[ROUTE_ID] = route.id
        return by_name[route.model]

    async def async_get_available_deployment(
        self,
        model: str,
        messages: list[dict[str, str]] | None = None,
        input: str | list[Any] | None = None,  # noqa: A002 (the name of LiteLLM)
        specific_deployment: bool | None = False,
        request_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Return the deployment for a request, like :meth:`get_available_deployment`."""
        return self.get_available_deployment(model, messages, input, specific_deployment, request_kwargs)

    def on_success(self, kwargs: Mapping[str, Any], response: Any, start: datetime, end: datetime) -> None:
        """Report the cost and the latency of an answer to the router. LiteLLM calls this.

        Parameters
        ----------
        kwargs : dict
            LiteLLM's details of the request, with ``response_cost``.
        response : object
            The answer.
        start, end : datetime
            When the request began and ended.
        """
        route = ((kwargs.get("litellm_params") or {}).get("metadata") or {}).get(ROUTE_ID)
        if route is None:
            return
        try:
            self.router.complete(
                route, cost=kwargs.get("response_cost"), latency=max((end - start).total_seconds(), 0.0)
            )
        except GlcbError:
            return  # from another router, or a retry whose cost is known


def deployment_name(deployment: Mapping[str, Any]) -> str:
    """Return the name of a deployment in the router: its model name.

    >>> deployment_name({"model_name": "auto", "litellm_params": {"model": "openai/gpt-4o"}})
    'openai/gpt-4o'
    """
    return str(deployment["litellm_params"]["model"])


def _prompt(messages: list[dict[str, str]] | None, text: str | list[Any] | None) -> str:
    """Return the text for the features: the last user message."""
    if messages:
        users = [message for message in messages if message.get("role") == "user"] or messages
        content: Any = users[-1].get("content") or ""
        if isinstance(content, str):
            return content
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return text if isinstance(text, str) else "\n".join(map(str, text or ()))
