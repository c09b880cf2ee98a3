"""
Which versions of the commit table stay in storage: docs/spec.md 3.3.

The last version of each minute is kept for 7 days, and every other one for an hour after the next
one has become the head. What a version's time was, the versions after it tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from txns._admin.log_versions import Versions
from txns._log.archive_scan import ArchiveScan
from txns._log.superseded import GRACE_MS, KEPT_MS, minute_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from txns._admin.log_versions import EntryId, Version
    from txns._log.head import Head


def of_log(versions: Versions, newest: Head) -> Versions:
    """
    Give the versions without those of swaps that were lost, whose files say so.

    No version stands on such a one, and where it has one entry more than the log, the log has
    another one: it goes on after the entry before that. What a tidy has made says nothing of it.

    Args:
        versions: All that storage has.
        newest: The head, which tells with its archive what the log has.
    """
    alone = [each for each in versions.by_path.values() if not versions.is_stood_on(each)]
    known = _known(newest, {entry for each in alone for entry in each.entries})
    lost = {each.path for each in alone if _is_lost(versions, each, known, newest.upper)}
    by_path = {path: one for path, one in versions.by_path.items() if one.path not in lost}
    return Versions(versions.io, by_path)


def _is_lost(versions: Versions, version: Version, known: set[EntryId], upper: int) -> bool:
    lacking = [each for each in version.entries if each not in known]
    before = versions.by_path.get(version.stands_on)
    if before is not None:
        return (
            bool(lacking) and before.upper < upper and lacking == versions.more_than_before(version)
        )
    # What it stood on is gone. A log that was set back leaves such a one behind, too, of several.
    shared = [ts for ts, txn_id in version.entries if (ts, txn_id) in known]
    return len(lacking) == 1 and bool(shared) and shared[-1] < min(upper, lacking[0][0])


def _known(newest: Head, asked: set[EntryId]) -> set[EntryId]:
    """Give those entries that the log has, in its head or archive; all where it cannot be read."""
    known = {(each.commit_ts, each.txn_id) for each in newest.state.entries}
    left = asked - known
    if not left or newest.table is None:
        return known
    wanted = pa.array(sorted({ts for ts, _ in left}), pa.int64())
    scan = ArchiveScan(newest.table, least_ts=wanted[0].as_py())
    try:
        for window in scan.oldest_first(("commit_ts", "txn_id")):
            rows = window.filter(pc.is_in(window["commit_ts"], wanted)).to_pydict()
            known.update(zip(*rows.values(), strict=True))
    except FileNotFoundError:
        return known | asked
    return known


def staying(versions: Versions, written_ms: Mapping[str, int], now_ms: int) -> list[Version]:
    """
    Give the versions that are not to be removed yet, ascending.

    One that may be the last of its minute counts as that: where another one of the minute is above
    it, that may have been written for a swap that was lost, unless a further one stands on it.

    Args:
        versions: Those of the log (`of_log`) that storage has.
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
