"""What a check has found: what was looked at, and what does not hold."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Violation:
    """
    Something that does not hold.

    Attributes:
        invariant: `I1` to `I11`, or the section of the specification.
        where: The table or entry.
        words: What is wrong.
    """

    invariant: str
    where: str
    words: str


@dataclass
class Findings:
    """
    What was looked at, and what does not hold.

    Attributes:
        violations: What does not hold.
        checked: How many of what were looked at.
        warnings: What holds, and is to be put right all the same.
    """

    violations: list[Violation] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def add(self, invariant: str, where: str, words: str) -> None:
        """Note a violation."""
        self.violations.append(Violation(invariant, where, words))
