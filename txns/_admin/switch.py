"""
Turn the protocol's writers away, and let them in again: the way out in an incident, and back.

Imports: _entry, _marks, _survey, errors. Used by: _handle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns._admin.inventory import Surveyed, survey
from txns._commit import control
from txns._identifier import dotted_name
from txns._log.entry import Kind
from txns._logger import logger

if TYPE_CHECKING:
    from txns._identifier import Identifier
    from txns._services import Parts

_LOG = logger(__name__)


def on(parts: Parts) -> list[Identifier]:
    """See `Handle.on`."""
    control.append(parts, Kind.ON)
    return [
        each.identifier
        for each in survey(parts, parts.log.load())
        if each.foreign and not _adopts(parts, each)
    ]


def _adopts(parts: Parts, table: Surveyed) -> bool:
    """Adopt a table; one that lacks what was acknowledged is left to a person."""
    view = table.loaded.view if table.loaded else None
    if view and view.stranger and view.stranger.lost:
        _LOG.warning("%s is not adopted: %s", dotted_name(table.identifier), view.stranger.reason)
        return False
    try:
        parts.repairer.adopt(table.identifier)
    except Exception as error:  # noqa: BLE001 -- one that is broken keeps no other from it
        _LOG.warning("%s is not adopted: %s", dotted_name(table.identifier), error)
        return False
    return True
