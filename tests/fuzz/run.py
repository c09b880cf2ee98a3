"""A run of the fuzzer: inputs, what the cores say of them, and whether that is right."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from tests.fuzz.verdicts import NO_TABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.fuzz.inputs import Input
    from tests.fuzz.judges import Answer, JavaJudge, PythonJudge

_BATCH = 200
_LIBRARIES = {"overlay", "create"}
"""Kinds whose values are what an Iceberg library makes of updates that nobody would send."""

_UNKNOWN = ["UNSUPPORTED", "CORRUPT_LOG"]
"""Python's, and Java's: pyiceberg does not know an update, and looks at nothing else there."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What one input may take, of processor time and of memory."""

    cpu_ms: float
    mib: float


SMALL = Limit(cpu_ms=1_000, mib=256)
"""For inputs of up to a MiB."""
GREATEST = Limit(cpu_ms=30_000, mib=2_048)
"""For those at the limits of the specification."""


@dataclass
class Run:
    """
    What has come of a run so far.

    Attributes:
        inputs: How many.
        crashes: What was none of the protocol's answers, or took too much.
        differences: What the cores disagree about.
        of_libraries: Of these what Iceberg's libraries make of updates, which is not counted.
        verdicts: How often what was said, of which kind.
        told: A line for each that is wrong.
    """

    limit: Limit
    inputs: int = 0
    crashes: int = 0
    differences: int = 0
    of_libraries: int = 0
    longest_ms: float = 0
    greatest_mib: float = 0
    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)

    def go(self, inputs: Iterable[Input], judges: Sequence[PythonJudge | JavaJudge]) -> None:
        """Let cores judge inputs."""
        for batch in _batches(inputs):
            answers = [judge.answers(batch) for judge in judges]
            for one, *said in zip(batch, *answers, strict=True):
                self._take(one, said)

    def _take(self, one: Input, said: list[Answer]) -> None:
        self.inputs += 1
        for answer in said:
            self.verdicts[one["kind"], answer.verdict.split()[0]] += 1
            self.longest_ms = max(self.longest_ms, answer.cpu_ms)
            self.greatest_mib = max(self.greatest_mib, answer.mib)
            slow = answer.cpu_ms > self.limit.cpu_ms or answer.mib > self.limit.mib
            if answer.crashed or slow:
                self.crashes += 1
                self.told.append(f"input={one['n']} kind={one['kind']} {answer}")
        words = {answer.verdict for answer in said}
        if len(words) > 1 and NO_TABLE not in words and not any(each.crashed for each in said):
            if one["kind"] in _LIBRARIES or [each.verdict for each in said] == _UNKNOWN:
                self.of_libraries += 1
                return
            self.differences += 1
            self.told.append(f"input={one['n']} kind={one['kind']} differ: {sorted(words)}")

    def __str__(self) -> str:
        """Give the figures, as the last line of a run has them."""
        return (
            f"inputs={self.inputs} crashes={self.crashes} differences={self.differences}"
            f" longest_ms={self.longest_ms:.0f} greatest_mib={self.greatest_mib:.0f}"
        )


def _batches(inputs: Iterable[Input]) -> Iterator[list[Input]]:
    left = iter(inputs)
    while batch := list(islice(left, _BATCH)):
        yield batch
