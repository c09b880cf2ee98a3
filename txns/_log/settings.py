"""
The log's settings: what all of its processes go by, each of which may only be stricter.

Docs/spec.md 4.2 and 4.3: the newest entry of kind `settings` says them. Pure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from txns._log import limits
from txns.errors import CorruptLog, InvalidUsage

INLINE = "inline"
NEXT = "next"

_DAY_MS = 24 * 3600 * 1000
MAX_AGE_MS_GE = 1000
MAX_AGE_MS_LE = 30 * _DAY_MS
ID_RETENTION_MS_LE = limits.LENGTH_MS_LE


@dataclass(frozen=True, slots=True)
class Settings:
    """
    What a log is set to; the defaults are those of a log that says nothing.

    Attributes:
        max_age_ms: The greatest age of a transaction, in ms.
        id_retention_ms: How far back the archive is searched for a caller's id, in ms.
        apply: When what has committed is applied: `inline` by the committer, or by the `next`
            writer.
    """

    max_age_ms: int = _DAY_MS
    id_retention_ms: int = 7 * _DAY_MS
    apply: str = INLINE

    @property
    def wrong(self) -> str:
        """What is against the limits (docs/spec.md 4.7); empty for nothing."""
        if not MAX_AGE_MS_GE <= self.max_age_ms <= MAX_AGE_MS_LE:
            return f"max-age-ms is {MAX_AGE_MS_GE} to {MAX_AGE_MS_LE}, not {self.max_age_ms}"
        if not self.max_age_ms <= self.id_retention_ms <= ID_RETENTION_MS_LE:
            return (
                f"id-retention-ms is at least max-age-ms, {self.max_age_ms}, and at most"
                f" {ID_RETENTION_MS_LE}, not {self.id_retention_ms}"
            )
        if self.apply not in {INLINE, NEXT}:
            return f"apply is {INLINE} or {NEXT}, not {self.apply}"
        return ""

    def changed(
        self, *, max_age_ms: int | None, id_retention_ms: int | None, apply: str | None
    ) -> Settings:
        """
        Give these settings with others in their place, where others are given.

        Raises:
            InvalidUsage: 22023 saying what they may be.
        """
        max_age_ms = limits.whole(max_age_ms, "max_age_ms", sqlstate="22023")
        id_retention_ms = limits.whole(id_retention_ms, "id_retention_ms", sqlstate="22023")
        changed = Settings(
            self.max_age_ms if max_age_ms is None else max_age_ms,
            self.id_retention_ms if id_retention_ms is None else id_retention_ms,
            self.apply if apply is None else apply,
        )
        if changed.wrong:
            raise InvalidUsage("22023", f"the log cannot be set to that: {changed.wrong}")
        return changed


DEFAULTS = Settings()


def dumped(settings: Settings) -> str:
    """Give settings as a record holds them."""
    return json.dumps(
        {
            "max-age-ms": settings.max_age_ms,
            "id-retention-ms": settings.id_retention_ms,
            "apply": settings.apply,
        }
    )


def parsed(stored: str, key: str) -> Settings:
    """
    Decode settings as a record holds them.

    Raises:
        CorruptLog: They are malformed, or against the limits; naming the key.
    """
    try:
        found = limits.parsed(stored)
    except ValueError as error:
        raise CorruptLog(f"{key} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise CorruptLog(f"{key} is not an object")
    settings = Settings(
        _whole(found, "max-age-ms", DEFAULTS.max_age_ms, key),
        _whole(found, "id-retention-ms", DEFAULTS.id_retention_ms, key),
        _text(found, "apply", DEFAULTS.apply, key),
    )
    if settings.wrong:
        raise CorruptLog(f"{key} is against the limits: {settings.wrong}")
    return settings


def _whole(found: dict[str, Any], name: str, default: int, key: str) -> int:
    value = found.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise CorruptLog(f"`{name}` in {key} is not a whole number")
    return value


def _text(found: dict[str, Any], name: str, default: str, key: str) -> str:
    value = found.get(name, default)
    if not isinstance(value, str):
        raise CorruptLog(f"`{name}` in {key} is not a text")
    return value
