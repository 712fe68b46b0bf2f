"""BootRMS: three networks, each trained on its own sample of the data."""

import numpy as np
import pytest

from glcb.policies.neural import network
from glcb.policies.neural.boot_rms import BootRMS
from tests.policies.cases import trained

pytestmark = pytest.mark.baselines


def test_every_network_stores_its_own_95_percent_of_the_data() -> None:
    policy = BootRMS(2, 1)
    for i in range(2000):
        policy.learn([(i % 100) / 100], i % 2, i % 2)
    sizes = [len(net.data) for net in policy._networks]
    assert all(1860 < size < 1940 for size in sizes)
    assert len({net.data.all().contexts.tobytes() for net in policy._networks}) == 3


def test_all_networks_store_the_first_reward() -> None:
    for seed in range(50):
        policy = BootRMS(2, 1, seed=seed)
        policy.learn([0.5], 0, 1)
        assert [len(net.data) for net in policy._networks] == [1, 1, 1]


def test_each_network_decides_a_third_of_the_time() -> None:
    policy = trained(BootRMS(3, 2), 60)
    assert isinstance(policy, BootRMS)
    x = np.array([0.4, 0.6], np.float32)
    own = np.array([network.values(net.weights, x) for net in policy._networks])
    scores = np.array([policy.decide(x).scores for _ in range(3000)])
    chosen = np.abs(scores[:, None] - own[None]).sum(axis=2).argmin(axis=1)
    np.testing.assert_allclose(scores, own[chosen], atol=1e-6)
    np.testing.assert_allclose(np.bincount(chosen) / 3000, np.full(3, 1 / 3), atol=0.04)
    np.testing.assert_allclose(policy.decide(x).values, own.mean(axis=0), atol=1e-6)
