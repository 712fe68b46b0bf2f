"""One policy for all arms: arm features are part of the context, and evidence is shared."""

from glcb.policies.shared.candidates import Candidates, join
from glcb.policies.shared.estimate import estimate_candidates
from glcb.policies.shared.own import OwnCorrections

__all__ = ["Candidates", "OwnCorrections", "estimate_candidates", "join"]
