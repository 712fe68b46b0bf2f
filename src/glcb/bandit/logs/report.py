"""What came of learning from a log."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class LogReport:
    """What was learned from a log so far, and what was refused and why."""

    rows: int = 0
    """Rows or lines that were read."""
    decisions: int = 0
    """Decisions that were taken over."""
    learned: int = 0
    """Rewards that were learned."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Rows that nothing came of, by reason."""
    examples: Mapping[str, str] = field(default_factory=dict)
    """The first row that was refused for each reason, in words."""
    share: float = 1.0
    """How much of the log was read, from 0 to 1."""

    def __str__(self) -> str:
        refused = sum(self.refused.values())
        lines = [
            f"{_some(self.rows, 'row')}: {_some(self.decisions, 'decision')} and "
            f"{_some(self.learned, 'reward')} learned, {_some(refused, 'row')} refused"
        ]
        for reason, count in sorted(self.refused.items(), key=lambda item: -item[1]):
            lines.append(f"  {count:,} × {reason}, such as {self.examples[reason]}")
        return "\n".join(lines)


def _some(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


Progress = Callable[[LogReport], None]
"""Is told how far it is, every now and then and at the end."""
