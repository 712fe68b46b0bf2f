"""Fixtures that create the policies under test."""

import pytest

from glcb import Policy
from tests.policies.cases import ARMS, CASES, FEATURES, POLICIES, REPRESENTATIVES, REWARD_KINDS, Maker


def maker(name: str, kind: str) -> Maker:
    def make(seed: int = 0) -> Policy:
        return POLICIES[name](ARMS, FEATURES, rewards=REWARD_KINDS[kind], seed=seed)

    return make


@pytest.fixture(params=CASES, ids="-".join)
def make(request: pytest.FixtureRequest) -> Maker:
    """Create any policy: for laws that a policy can break."""
    return maker(*request.param)


@pytest.fixture(params=REPRESENTATIVES)
def make_representative(request: pytest.FixtureRequest) -> Maker:
    """Create one policy of each family: for laws of the base class."""
    return maker(request.param, "binary")
