"""Protections of files that look as if nothing referred to them, taken away (docs/spec.md 10)."""

from __future__ import annotations

from typing import Any

from txns._admin import orphans
from txns._log import commit_log

Patch = tuple[Any, str, Any]


def missing_list_passed_over() -> list[Patch]:
    """Remove what stands behind a missing file of the newest head, as what nothing refers to."""
    listed_in = orphans._listed_in

    def leniently(io: Any, lists: Any, *_gone: Any) -> set[str]:
        return listed_in(io, lists, FileNotFoundError)

    return [(orphans, "_listed_in", leniently)]


def head_not_moved() -> list[Patch]:
    """Remove what somebody who has stood still is about to refer to, with a swap that is won."""
    return [(orphans, "_moved", lambda parts, _head: parts.log.load())]


def earlier_heads_forgotten() -> list[Patch]:
    """Remove what was needed until just now, and is still read."""
    return [(orphans, "_used_before", lambda _newest, _written_ms, _now_ms: set())]


def superseded_at_once() -> list[Patch]:
    """Remove what is superseded without a time of grace for its readers (3.3)."""

    def at_once(self: Any, *locations: str) -> None:
        for location in locations:
            commit_log.remove(self.io, location)

    return [(commit_log.CommitLog, "supersede", at_once)]
