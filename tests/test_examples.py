"""The examples run, in a short form, and tell what they promise."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples import visitors
from glcb import Bandit

EXAMPLES = Path(visitors.__file__).parent


def test_visitors_tells_the_lift_explains_and_draws(tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    program = [sys.executable, str(EXAMPLES / "visitors.py"), "--visitors", "1500", "--out", str(picture)]
    told = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    assert re.search(r"1,500 visitors in .* days: [+-]\d+% clicks .* \(95 %: [+-]\d+% to [+-]\d+%\)", told)
    assert "1,500 decisions" in told
    assert "is expected to bring" in told
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("example", ["visitors", "plane"])
def test_that_matplotlib_is_missing_is_said_before_anything_is_played(example: str) -> None:
    program = (
        "import runpy, sys; sys.modules['matplotlib'] = None; "
        f"runpy.run_path({str(EXAMPLES / example) + '.py'!r}, run_name='__main__')"
    )
    ran = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert "MissingExtra: the picture needs matplotlib: pip install '.[report]'" in ran.stderr
    assert ran.stdout == ""


def test_every_click_of_the_visitors_is_accounted_for() -> None:
    world = visitors.World()
    bandit = Bandit(
        visitors.BANNERS,
        policy="linucb",
        reward_timeout=visitors.REWARD_TIMEOUT,
        default_reward=0,
        clock=world.time,
    )
    season = visitors.play(bandit, world, 4000, seed=10_000)
    under_way = len(world.reports)
    assert season.clicks.sum() == len(season.delays) + season.lost + season.too_late + under_way
    assert len(season.delays) == bandit.counts["rewarded"]
    assert max(season.delays) <= visitors.REWARD_TIMEOUT
    assert season.too_late > 0
    gain, low, high = visitors.lift(season)
    assert 0 < low < gain < high


def test_plane_tells_how_much_it_knows_and_draws(tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    sizes = ["--few", "50", "--many", "1500", "--seed", "10000", "--out", str(picture)]
    program = [sys.executable, str(EXAMPLES / "plane.py"), *sizes]
    told = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    few, many = (int(share) for share in re.findall(r"right on (\d+)%", told))
    assert few < many
    assert many > 80
    assert picture.read_bytes().startswith(b"\x89PNG")
