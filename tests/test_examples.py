"""Short runs of the examples."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples import visitors
from glcb import Bandit

EXAMPLES = Path(visitors.__file__).parent


def test_visitors_prints_the_lift_and_an_explanation_and_draws_a_figure(tmp_path: Path) -> None:
    figure = tmp_path / "figure.png"
    program = [sys.executable, str(EXAMPLES / "visitors.py"), "--visitors", "1500", "--out", str(figure)]
    output = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    assert re.search(r"1,500 visitors in .* days: [+-]\d+% clicks .* \(95%: [+-]\d+% to [+-]\d+%\)", output)
    assert "1,500 decisions" in output
    assert re.search(rf"Why this banner for .*\?\n.*({'|'.join(visitors.BANNERS)})", output)
    assert figure.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("example", ["visitors", "plane"])
def test_missing_matplotlib_is_reported_before_the_simulation(example: str) -> None:
    program = (
        "import runpy, sys; sys.modules['matplotlib'] = None; "
        f"runpy.run_path({str(EXAMPLES / example) + '.py'!r}, run_name='__main__')"
    )
    ran = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert "MissingExtra: the figure needs matplotlib: pip install '.[report]'" in ran.stderr
    assert ran.stdout == ""


def test_every_click_is_accounted_for() -> None:
    world = visitors.World()
    bandit = Bandit(
        visitors.BANNERS,
        policy="linucb",
        reward_timeout=visitors.REWARD_TIMEOUT,
        default_reward=0,
        clock=world.time,
    )
    season = visitors.simulate(bandit, world, 4000, seed=10_000)
    in_transit = len(world.reports)
    assert season.clicks.sum() == len(season.delays) + season.lost + season.too_late + in_transit
    assert len(season.delays) == bandit.counts["rewarded"]
    assert max(season.delays) <= visitors.REWARD_TIMEOUT
    assert season.too_late > 0
    gain, low, high = visitors.lift(season)
    assert 0 < low < gain < high


def test_plane_prints_its_accuracy_and_draws_a_figure(tmp_path: Path) -> None:
    figure = tmp_path / "figure.png"
    sizes = ["--few", "50", "--many", "1500", "--seed", "10000", "--out", str(figure)]
    program = [sys.executable, str(EXAMPLES / "plane.py"), *sizes]
    output = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    few, many = (int(share) for share in re.findall(r"correct on (\d+)%", output))
    assert few < many
    assert many > 80
    assert figure.read_bytes().startswith(b"\x89PNG")


@pytest.mark.data
def test_the_router_follows_prices_and_models_and_draws_the_curve(tmp_path: Path) -> None:
    figure = tmp_path / "router.png"
    program = [sys.executable, str(EXAMPLES / "router.py"), "--prompts", "100", "--figure", str(figure)]
    output = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    assert len(re.findall(r"^ 0\.00\d{3}  0\.\d{6}", output, re.MULTILINE)) == 6
    for note in ("costs ten times as much", "is new", "gets worse", "arm.name = ", "cost = $"):
        assert note in output
    assert figure.read_bytes().startswith(b"\x89PNG")
