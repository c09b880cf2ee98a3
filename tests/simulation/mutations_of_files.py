"""Protections of files that look as if nothing referred to them, taken away (docs/spec.md 10)."""

from __future__ import annotations

from typing import Any

from txns._admin import orphans
from txns._commit import dropped_files
from txns._log import commit_log, superseded

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
    names = ("_late_heads", "staying")
    return [(orphans, name, lambda *_given: []) for name in names]


def kept_versions_removed() -> list[Patch]:
    """Remove the last version of a minute like any other one, when nothing refers to it (3.3)."""
    return [(orphans, "staying", lambda *_given: [])]


def minutes_forgotten() -> list[Patch]:
    """Remove what the last version of a minute names an hour after it was superseded (3.3)."""
    modules = (commit_log, dropped_files)
    return [(module, "ends_minute", lambda _upper, _later: False) for module in modules]


def superseded_at_once() -> list[Patch]:
    """Remove what is superseded without a time of grace for its readers (3.3)."""

    def at_once(self: Any, *locations: str) -> None:
        for location in locations:
            superseded.remove(self.io, location)

    return [(commit_log.CommitLog, "supersede", at_once)]
