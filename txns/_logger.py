"""
Loggers whose records hold no secret.

What a catalog says of a failure may hold its own options.
"""

from __future__ import annotations

import logging
import traceback

from txns import _message


class _Masked(logging.Filter):
    """Masks a record, with the traceback that it may have, before any handler sees it."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = _message.message(record.getMessage()), None
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            # Handlers show this text where there is no exception any more, from which they would
            # make one of their own.
            record.exc_info, record.exc_text = None, masked_traceback(error)
        return True


_MASKED = _Masked()


def logger(name: str) -> logging.Logger:
    """Give a module's logger; every one of the library comes from here."""
    made = logging.getLogger(name)  # noqa: TID251 -- this is where they are made
    made.addFilter(_MASKED)
    return made


def masked_traceback(error: BaseException) -> str:
    """Give an error's traceback, with those of its causes, as people may see it."""
    lines = _message.masked("".join(traceback.format_exception(error))).splitlines()
    return "\n".join(_message.printable(line) for line in lines)
