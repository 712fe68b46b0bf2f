"""BBAlphaDiv: the energy against a direct transcription, and the factor table of the library."""

import math

import numpy as np
import pytest

from glcb.policies.buffer import Batch
from glcb.policies.neural.bb_alpha_div import DRAWS, BBAlphaDiv, _factor_table

pytestmark = pytest.mark.baselines

LAYERS = ("inner", "inner_bias", "outer", "outer_bias")


def test_factors_are_assigned_as_in_the_library() -> None:
    factors = np.arange(DRAWS, dtype=np.float32)
    table = np.asarray(_factor_table(factors, 512))
    assert table.shape == (DRAWS, 512)
    for draw, row in [(0, 0), (0, 9), (0, 10), (1, 0), (3, 17), (9, 511)]:
        assert table[draw, row] == (512 * draw + row) % DRAWS


def test_loss_is_the_energy_up_to_constants() -> None:
    policy = BBAlphaDiv(2, 3, seed=1)
    w = {name: array.astype(np.float64) for name, array in policy._networks[0].weights.items()}
    for name in LAYERS:
        w[f"log_{name}"] += 3  # large enough for the draws to differ
    rng = np.random.default_rng(0)
    rows, points = 6, 40
    batch = Batch(rng.random((rows, 3)), np.array([0, 1, 1, 0, 1, 0]), rng.random(rows))

    def energy(noise: dict[str, np.ndarray]) -> float:
        deviation = {name: np.exp(w[f"log_{name}"]) for name in (*LAYERS, "noise")}
        log_f, log_likelihood = np.zeros(DRAWS), np.zeros((DRAWS, rows))
        sigma = 0.1 * np.exp(w["noise"] + deviation["noise"] * noise["noise"])
        for k in range(DRAWS):
            drawn = {name: w[name] + deviation[name] * noise[name][k] for name in LAYERS}
            for name in LAYERS:
                s2, theta = deviation[name] ** 2, drawn[name]
                log_f[k] += (theta * w[name] / (points * s2)).sum()
                log_f[k] += (theta**2 / (2 * points) * (1 / 0.1 - 1 / s2)).sum()
            hidden = np.maximum(batch.contexts @ drawn["inner"] + drawn["inner_bias"], 0)
            out = hidden @ drawn["outer"] + drawn["outer_bias"]
            for b, arm in enumerate(batch.arms):
                error = (batch.rewards[b] - out[b, arm]) / sigma[arm]
                log_likelihood[k, b] = -0.5 * math.log(2 * math.pi) - math.log(sigma[arm]) - error**2 / 2
        log_z = sum(
            (w[name] ** 2 / (2 * deviation[name] ** 2)).sum() + np.log(deviation[name]).sum()
            for name in LAYERS
        )
        total = 0.0
        for b in range(rows):
            ratios = [log_likelihood[k, b] - log_f[(rows * k + b) % DRAWS] for k in range(DRAWS)]
            total += math.log(sum(math.exp(ratio - max(ratios)) for ratio in ratios) / DRAWS) + max(ratios)
        return float(-log_z - points / rows * total)

    differences = []
    for seed in range(3):
        draws = np.random.default_rng(seed)
        noise = {name: draws.standard_normal((DRAWS, *w[name].shape)) for name in LAYERS}
        noise["noise"] = draws.standard_normal(2)
        differences.append(float(BBAlphaDiv._loss(w, batch, points, noise)) - energy(noise))
    # The loss omits log(1 / 10), which has no gradient.
    assert differences == pytest.approx([-points * math.log(DRAWS)] * 3, rel=1e-3)


def test_biases_and_noise_have_a_distribution() -> None:
    policy = BBAlphaDiv(2, 3)
    names = {*LAYERS, "noise"}
    assert set(policy._networks[0].weights) == names | {f"log_{name}" for name in names}
    shapes = {name: array.shape for name, array in policy._training_noise(np.random.default_rng(0)).items()}
    assert shapes["inner"] == (100, DRAWS, 3, 50)
    assert shapes["noise"] == (100, 2)
