"""A trace as a story: who did what at which moment, what went wrong, and what was seen."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING, Any

from tests.simulation.faults import Fault
from tests.simulation.scheduler import START_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LOG = "txns.commits"
_TIMESTAMP = re.compile(r"\b1[78]\d{11}\b")
_FILES = (
    (r"memory://\S+?/txns/commits/data/\S+", "a file of the archive"),
    (r"memory://\S+?/txns/commits/metadata/txns-payload-\S+", "a payload"),
    (r"memory://\S+?/txns/commits/metadata/snap-\S+", "a manifest list of the log"),
    (r"memory://\S+?/txns/commits/metadata/\S+\.metadata\.json", "an old version of the log"),
    (r"memory://\S+?/txns/commits/metadata/\S+-m\d+\.avro", "a manifest of the log"),
    (r"memory://lake/lake/(\w+)/metadata/snap-\S+", r"a manifest list of \1"),
    (r"memory://lake/lake/(\w+)/metadata/\S+-m\d+\.avro", r"a manifest of \1"),
    (r"memory://lake/lake/(\w+)/metadata/\S+\.metadata\.json", r"a metadata file of \1"),
    (r"memory://lake/lake/(\w+)/data/\S+", r"a data file of \1"),
)
_VERBS = {
    "load": "loads",
    "read": "reads",
    "write": "writes",
    "delete": "deletes",
    "swap": "swaps",
    "create": "creates",
    "drop": "drops",
    "rename": "renames",
}
_FAULTS = {
    Fault.FAILS: "it fails, and nothing is done",
    Fault.DELAYED: "it takes a while",
    Fault.ANSWER_LOST: "it is done, and the answer is lost",
    Fault.CALLED_LOST: "it is done, and called a lost race",
    Fault.LANDS_LATE: "the answer is lost, and it is done later",
    Fault.OUTAGE: "nothing answers for a while",
    Fault.STALE: "an older version answers",
    Fault.REFUSED: "it is refused, and not done",
    Fault.REFUSED_LANDED: "it is refused, and done",
    Fault.REFUSED_LATE: "it is refused, and done later",
    Fault.HANGS: "it hangs, and is not done",
    Fault.HANGS_LANDED: "it is done, and hangs",
    Fault.SUSPENDED: "the process stands still, then goes on",
    Fault.DIES_BEFORE: "the process dies before it is done",
    Fault.DIES_AFTER: "it is done, and the process dies",
}


def story(trace: Iterable[str]) -> list[str]:
    """
    Tell a trace.

    Args:
        trace: Lines of a world's trace: ms since the beginning, who, and what.

    Returns:
        A paragraph for each turn of somebody: a heading, and a line for each step; what is said
        again and again stands there once, with how often.
    """
    parts = (line.split(" ", 2) for line in trace)
    told = ((int(ms), who, _told(text)) for ms, who, text in parts)
    lines: list[str] = []
    for who, turn in groupby(told, key=lambda one: one[1]):
        lines.append(_heading(who))
        for text, same in groupby(turn, key=lambda one: one[2]):
            times = [ms for ms, _who, _text in same]
            more = f" ({len(times)} times, until {times[-1]:,})" if len(times) > 1 else ""
            lines.append(f"  {times[0]:>12,}  {text}{more}")
    return lines


def _heading(who: str) -> str:
    """Say whose turn it is: `b.6.transaction#1.t0` is a thread of b's second try of action 6."""
    return "the audit" if who == "-" else who


def _told(text: str) -> str:
    """Say what a line of the trace says."""
    text = _TIMESTAMP.sub(lambda found: f"@{int(found[0]) - START_MS}", text)
    for pattern, words in _FILES:
        text = re.sub(pattern, words, text)
    text = text.replace(_LOG, "the log").replace("lake.", "")
    verb, _, rest = text.partition(" ")
    if verb not in _VERBS:
        return text
    for fault, words in _FAULTS.items():
        if rest.endswith(f" {fault.value}"):
            return f"{_VERBS[verb]} {rest.removesuffix(f' {fault.value}')}: {words}"
    return f"{_VERBS[verb]} {rest}"


def seen(result: Any) -> Iterator[str]:
    """Say what a step gave: of the log its upper, of a table where it stands."""
    metadata = getattr(result, "metadata", None)
    if metadata is None or not hasattr(metadata, "snapshots"):
        return
    main = metadata.current_snapshot()
    summary = main.summary.additional_properties if main and main.summary else {}
    if "txns.upper" in summary:
        yield f"sees the log up to {summary['txns.upper']}"
        return
    made = summary.get("txns.commit-ts") or "a stranger's"
    applied = metadata.properties.get("txns.applied")
    yield f"sees main of {made}, applied {applied}" if applied else f"sees main of {made}, no mark"
