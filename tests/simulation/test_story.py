"""A trace is told as a story."""

from __future__ import annotations

from tests.simulation.plan import plan
from tests.simulation.run import run
from tests.simulation.scheduler import START_MS
from tests.simulation.story import story

LIST = "memory://lake/lake/t0/metadata/snap-1-0-abc.avro"


def test_a_step_is_told_in_words():
    """Who does what, to what, and what goes wrong; times count from the beginning."""
    trace = [
        f"5 a.1.transaction read {LIST}",
        "7 a.1.transaction swap txns.commits answer-lost",
        f"9 - entry commit {START_MS + 8} job",
    ]
    assert story(trace) == [
        "a.1.transaction",
        "             5  reads a manifest list of t0",
        "             7  swaps the log: it is done, and the answer is lost",
        "the audit",
        "             9  entry commit @8 job",
    ]


def test_what_is_done_again_and_again_is_told_once():
    """A process that is cut off asks a hundred times."""
    trace = [f"{ms} a.1.tidy load txns.commits cut off" for ms in (1, 5, 1200)]
    told = "             1  loads the log cut off (3 times, until 1,200)"
    assert story(trace) == ["a.1.tidy", told]


def test_a_trace_says_what_was_seen():
    """What a load gave, and what a transaction found and was told; the digest is the same."""
    once, again = run(plan(17), keep_trace=True), run(plan(17))
    told = "\n".join(story(once.trace))
    for words in ("sees the log up to @", "sees main of", "finds [", "means ", "is told that it"):
        assert words in told
    assert once.digest == again.digest
