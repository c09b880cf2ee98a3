"""
Who has lost, and is waited for: the list `txns.reserve` of a record.

Nothing is read by it, so what is no reservation counts as not being there. Docs/spec.md 11.4. Pure.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from txns._log import limits
from txns._log.stored import INT64_MAX, is_txn_id

KEY = "txns.reserve"

RESERVATIONS_MAX = 8
UUIDS_MAX = 32
NUMBER_MAX = 5
LASTS_MS_MAX = 120_000
_TEXT_MAX_BYTES = 65_536
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Reservation:
    """
    What one transaction that has lost asks of the younger ones.

    Attributes:
        txn_id: The try that is going to use it.
        uuids: Of the tables for which it is waited.
        ticket: The upper in ms that its first try began with: the least is the oldest.
        number: How often it has reserved.
        lasts_ms: For how long anybody waits for it.
    """

    txn_id: str
    uuids: tuple[str, ...]
    ticket: int
    number: int
    lasts_ms: int

    @property
    def age(self) -> tuple[int, str]:
        """What orders transactions: the lesser one is the older."""
        return self.ticket, self.txn_id

    @property
    def key(self) -> tuple[str, int]:
        """What tells it from every other one."""
        return self.txn_id, self.number

    def shares(self, uuids: frozenset[str]) -> bool:
        """Whether it is for one of some tables."""
        return not uuids.isdisjoint(self.uuids)


@dataclass(frozen=True, slots=True)
class Turn:
    """
    How old one try of a transaction is, and what is reserved for it.

    Attributes:
        ticket: The upper in ms that the first try began with.
        began_ms: When this one began, by a clock that only grows.
        number: How often its tries have reserved.
        reserved: For this try; None where nothing is.
        held: The ids of its tries whose reservations may still stand.
    """

    ticket: int
    began_ms: int
    number: int = 0
    reserved: Reservation | None = None
    held: frozenset[str] = frozenset()


def dumped(reserved: tuple[Reservation, ...]) -> str:
    """Encode who has reserved."""
    return json.dumps(
        [
            {
                "txn-id": each.txn_id,
                "uuids": list(each.uuids),
                "ticket": each.ticket,
                "number": each.number,
                "lasts-ms": each.lasts_ms,
            }
            for each in reserved
        ],
        ensure_ascii=False,
    )


def parsed(stored: str | None, upper: int) -> tuple[Reservation, ...]:
    """
    Decode who has reserved; what is no reservation is left out.

    Args:
        stored: What a record has under `KEY`.
        upper: The record's, in ms: no ticket is above it.
    """
    if stored is None or len(limits.unicode(stored)) > _TEXT_MAX_BYTES:
        return ()
    try:
        elements = limits.parsed(stored)
    except ValueError:
        return ()
    if not isinstance(elements, list):
        return ()
    sound = [each for each in elements if isinstance(each, dict) and _is_sound(each)]
    return tuple(
        Reservation(
            each["txn-id"],
            tuple(each["uuids"]),
            min(each["ticket"], upper),
            each["number"],
            each["lasts-ms"],
        )
        for each in sound[:RESERVATIONS_MAX]
    )


def _is_sound(element: dict[str, Any]) -> bool:
    txn_id = element.get("txn-id")
    return (
        isinstance(txn_id, str)
        and is_txn_id(txn_id)
        and _are_uuids(element.get("uuids"))
        and _is_whole(element.get("ticket"), 0, INT64_MAX)
        and _is_whole(element.get("number"), 1, NUMBER_MAX)
        and _is_whole(element.get("lasts-ms"), 1, LASTS_MS_MAX)
    )


def _are_uuids(value: object) -> bool:
    if not isinstance(value, list) or not 1 <= len(value) <= UUIDS_MAX:
        return False
    texts = [each for each in value if isinstance(each, str) and _UUID.fullmatch(each)]
    return len(set(texts)) == len(value)


def _is_whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
