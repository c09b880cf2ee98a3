"""
Entries that have nothing to apply: they move the upper, turn writers away, note a registration.

Imports: _drafts, _engine, _entry, _group, errors. Used by: _handle, _register, _switch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns import _engine
from txns._commit.drafts import checked_ts
from txns._commit.group import Key
from txns._log.entry import Entry, Kind
from txns.errors import InvalidUsage

if TYPE_CHECKING:
    from txns._log.commit_log import Head
    from txns._log.entry import Change
    from txns._log.state import LogState
    from txns._services import Parts


def advance(parts: Parts, ts: int) -> int:
    """Move the upper to a timestamp in ms; gives the upper, which may be greater."""
    upper = parts.log.load().upper
    if upper >= ts:
        return upper
    key = Key.fresh(parts.clock.new_txn_id())

    def attempt(state: LogState, _head: Head, _next: int) -> Entry:
        commit_ts = checked_ts(ts, state.upper, parts.clock.now_ms())
        return entry(Kind.ADVANCE, key.txn_id, state, commit_ts)

    try:
        return parts.loop.append(key, attempt).commit_ts
    except InvalidUsage:
        upper = parts.log.load().upper
        if upper >= ts:
            return upper  # somebody else has moved it
        raise


def append(parts: Parts, kind: Kind) -> None:
    """Append a mark of a kind."""
    key = Key.fresh(parts.clock.new_txn_id())
    parts.loop.append(
        key, lambda state, _head, commit_ts: entry(kind, key.txn_id, state, commit_ts)
    )


def entry(
    kind: Kind, txn_id: str, state: LogState, commit_ts: int, changes: tuple[Change, ...] = ()
) -> Entry:
    """Give what stands above a state of the log and has nothing to apply."""
    return Entry(
        kind,
        txn_id,
        upper=commit_ts,
        tidied_upto=state.tidied_upto,
        commit_ts=commit_ts,
        prev_ts=state.upper,
        read_ts=state.upper,
        engine=_engine.NAME,
        changes=changes,
    )
