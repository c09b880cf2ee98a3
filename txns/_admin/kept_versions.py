"""
Which versions of the commit table stay in storage: docs/spec.md 3.3.

The last version of each minute is kept for 7 days, and every other one for an hour after the next
one has become the head. What a version's time was, the versions after it tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns._log.superseded import GRACE_MS, KEPT_MS, minute_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from txns._admin.log_versions import Version, Versions


def staying(versions: Versions, written_ms: Mapping[str, int], now_ms: int) -> list[Version]:
    """
    Give the versions that are not to be removed yet, ascending.

    One that may be the last of its minute counts as that: where another one of the minute is above
    it, that may have been written for a swap that was lost, unless a further one stands on it.

    Args:
        versions: All that storage has.
        written_ms: When storage says that each was written, by its path without its scheme.
        now_ms: By the same clock.
    """
    last: dict[int, int] = {}
    for each in versions.by_path.values():
        if versions.is_stood_on(each):
            minute = minute_of(each.upper)
            last[minute] = max(each.sequence_number, last.get(minute, 0))
    return [
        each
        for each, until_ms in _in_order(versions, written_ms, now_ms)
        if until_ms > now_ms - GRACE_MS
        or (
            until_ms > now_ms - KEPT_MS
            and each.sequence_number >= last.get(minute_of(each.upper), 0)
        )
    ]


def _in_order(
    versions: Versions, written_ms: Mapping[str, int], now_ms: int
) -> Iterator[tuple[Version, int]]:
    """
    Give versions, ascending, with a time in ms at which each was no longer the head.

    The next one has landed when the one after that was written; those that are gone came earlier.
    """
    ordered = sorted(versions.by_path.items(), key=lambda item: item[1].sequence_number)
    until_ms = [written_ms[path] for path, _ in ordered[2:]] + [now_ms, now_ms]
    for (_, version), at_ms in zip(ordered, until_ms, strict=False):
        yield version, at_ms
