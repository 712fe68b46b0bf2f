"""GLCB with the settings of the paper (Sezener, Hutter, Budden, Wang, Veness 2020)."""

from glcb.policies.glcb.policy import GLCB
from glcb.policies.glcb.settings import PAPER_BINARY, PAPER_BOUNDED
from glcb.policies.registry import register


@register("glcb-paper", source="Sezener, Hutter, Budden, Wang, Veness 2020")
class GLCBPaper(GLCB):
    """GLCB with the settings of the paper instead of our defaults.

    It takes the parameters of :class:`GLCB`.

    Examples
    --------
    >>> GLCBPaper(arms=2, features=3).settings.optimizer
    'gradient'

    References
    ----------
    Sezener, Hutter, Budden, Wang, Veness: Online learning in contextual bandits using gated linear networks.
    NeurIPS, 2020.
    """

    arms_are_independent = True
    _binary_settings = PAPER_BINARY
    _bounded_settings = PAPER_BOUNDED
