"""
Loggers whose records hold no secret, and say what they are about.

What a catalog says of a failure may hold its own options. The fields, the same in Java
(`TxnLogger`, `LogFields`), are in docs/operations.md.
"""

from __future__ import annotations

import logging
import traceback
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from txns import _message
from txns._identifier import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from txns._identifier import Identifier

FIELDS = ("txn", "table", "phase", "ms")

_ABOUT: ContextVar[Mapping[str, object]] = ContextVar("txns_about", default=MappingProxyType({}))


def fields(
    *,
    txn: str | None = None,
    table: Identifier | str | None = None,
    phase: str | None = None,
    ms: int | None = None,
) -> dict[str, Any]:
    """
    Give what one line is about, for `extra`: what `about` says of it, and this.

    Args:
        txn: The transaction's id.
        table: Its name.
        phase: A `Phase` of the metrics.
        ms: How long something took.
    """
    named = {"txn": txn, "table": table and dotted_name(table), "phase": phase, "ms": ms}
    return {name: value for name, value in named.items() if value is not None}


@contextmanager
def about(
    *,
    txn: str | None = None,
    table: Identifier | str | None = None,
    phase: str | None = None,
) -> Iterator[None]:
    """Have every line of this thread, until the block's end, say what it is about."""
    before = _ABOUT.set({**_ABOUT.get(), **fields(txn=txn, table=table, phase=phase)})
    try:
        yield
    finally:
        _ABOUT.reset(before)


class _Said(logging.Filter):
    """Masks a record, with its traceback, and gives it its fields, before a handler sees it."""

    def filter(self, record: logging.LogRecord) -> bool:
        said = [_message.message(record.getMessage()), *_said(record)]
        record.msg, record.args = " ".join(said), None
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            # Handlers show this text where there is no exception any more, from which they would
            # make one of their own.
            record.exc_info, record.exc_text = None, masked_traceback(error)
        return True


def _said(record: logging.LogRecord) -> Iterator[str]:
    """Give a record's fields as text, which become its attributes: what formatters read."""
    known = _ABOUT.get()
    for name in FIELDS:
        value = getattr(record, name, known.get(name))
        if value is None:
            continue
        shown = value if isinstance(value, int) else _message.printable(str(value))
        setattr(record, name, shown)
        yield f"{name}={_message.field(str(shown))}"


_SAID = _Said()


def logger(name: str) -> logging.Logger:
    """Give a module's logger; every one of the library comes from here."""
    made = logging.getLogger(name)  # noqa: TID251 -- this is where they are made
    made.addFilter(_SAID)
    return made


def masked_traceback(error: BaseException) -> str:
    """Give an error's traceback, with those of its causes, as people may see it."""
    lines = _message.masked("".join(traceback.format_exception(error))).splitlines()
    return "\n".join(_message.printable(line) for line in lines)
