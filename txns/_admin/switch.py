"""Turn the protocol's writers away, and let them in again: the way out in an incident, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from txns._admin.inventory import Surveyed, survey
from txns._admin.repair import Repairer
from txns._commit.drafts import checked_ts, control_entry
from txns._commit.group import Key
from txns._log import limits
from txns._log.entry import Entry, Kind
from txns._logger import fields, logger
from txns.errors import InvalidUsage

if TYPE_CHECKING:
    from txns._identifier import Identifier
    from txns._log.head import Head
    from txns._log.settings import Settings
    from txns._log.state import LogState
    from txns._services import Parts

_LOG = logger(__name__)


def advance(parts: Parts, ts: int) -> int:
    """Move the upper to a timestamp in ms; gives the upper, which may be greater."""
    ts = limits.whole(ts, "ts")
    upper = parts.log.load().upper
    if upper >= ts:
        return upper
    key = Key.fresh(parts.clock.new_txn_id())

    def attempt(state: LogState, _head: Head, _next: int) -> Entry:
        commit_ts = checked_ts(ts, state.upper, parts.clock.now_ms())
        return control_entry(Kind.ADVANCE, key.txn_id, state, commit_ts)

    try:
        return parts.loop.append(key, attempt).commit_ts
    except InvalidUsage:
        upper = parts.log.load().upper
        if upper >= ts:
            return upper  # somebody else has moved it
        raise


def change_settings(
    parts: Parts, *, max_age_ms: int | None, id_retention_ms: int | None, apply: str | None
) -> Settings:
    """Set the log, on top of what it is set to at the swap; see `Handle.change_settings`."""
    key = Key.fresh(parts.clock.new_txn_id())

    def attempt(state: LogState, _head: Head, commit_ts: int) -> Entry:
        changed = state.settings.changed(
            max_age_ms=max_age_ms, id_retention_ms=id_retention_ms, apply=apply
        )
        entry = control_entry(Kind.SETTINGS, key.txn_id, state, commit_ts)
        return replace(entry, settings=changed)

    settings = parts.loop.append(key, attempt).settings
    assert settings is not None
    return settings


def off(parts: Parts) -> None:
    """Turn the protocol's writers away, from the next entry on; see `Handle.off`."""
    _append(parts, Kind.OFF)


def on(parts: Parts) -> list[Identifier]:
    """
    Let the protocol's writers in again, and adopt what others wrote to the tables meanwhile.

    Returns:
        The tables for which that did not work: a repair of each says why.
    """
    _append(parts, Kind.ON)
    return [
        each.identifier
        for each in survey(parts, parts.log.load())
        if each.foreign and not _adopts(parts, each)
    ]


def _adopts(parts: Parts, table: Surveyed) -> bool:
    """Adopt a table; one that lacks what was acknowledged is left to a person."""
    stranger = table.loaded.stranger if table.loaded else None
    which = fields(table=table.identifier)
    if stranger and stranger.lost:
        _LOG.warning("the table is not adopted: %s", stranger.reason, extra=which)
        return False
    try:
        Repairer(parts).adopt(table.identifier)
    except Exception as error:  # noqa: BLE001 -- one that is broken keeps no other from it
        _LOG.warning("the table is not adopted: %s", error, extra=which)
        return False
    return True


def _append(parts: Parts, kind: Kind) -> None:
    """Append an entry of a kind that has nothing to apply."""
    key = Key.fresh(parts.clock.new_txn_id())
    parts.loop.append(
        key, lambda state, _head, commit_ts: control_entry(kind, key.txn_id, state, commit_ts)
    )
