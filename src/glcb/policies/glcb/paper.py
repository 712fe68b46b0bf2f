"""GLCB as the paper ran it (Sezener, Hutter, Budden, Wang, Veness 2020)."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Unpack

from glcb._types import Arm, Rewards
from glcb.policies.glcb.policy import GLCB
from glcb.policies.glcb.settings import PAPER_BINARY, PAPER_BOUNDED, SettingChanges
from glcb.policies.registry import register


@register("glcb-paper", source="Sezener, Hutter, Budden, Wang, Veness 2020")
class GLCBPaper(GLCB):
    """GLCB with the hyper-parameters of the paper, whatever its defaults are."""

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        **changes: Unpack[SettingChanges],
    ) -> None:
        paper = PAPER_BINARY if isinstance(rewards, str) else PAPER_BOUNDED
        settings: Any = asdict(paper) | changes
        super().__init__(arms, features, rewards=rewards, seed=seed, **settings)
