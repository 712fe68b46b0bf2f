"""What the laws of policies are tried on."""

import pytest

from glcb import Policy
from tests.policies.everyone import ARMS, FEATURES, KINDS, POLICIES, Maker


@pytest.fixture(params=[(name, kind) for name in POLICIES for kind in KINDS], ids="-".join)
def make(request: pytest.FixtureRequest) -> Maker:
    name, kind = request.param

    def build(seed: int = 0) -> Policy:
        return POLICIES[name](ARMS, FEATURES, rewards=KINDS[kind], seed=seed)

    return build
