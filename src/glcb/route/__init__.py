"""Routing of prompts to language models within a budget."""

from glcb.route.frontier import Frontier, RoutingResult, evaluate_routes
from glcb.route.models import Model, Route
from glcb.route.router import Router

__all__ = ["Frontier", "Model", "Route", "Router", "RoutingResult", "evaluate_routes"]
