"""
Secrets, which stand in no message, no repr and no log.

`docs/golden/messages.json` has cases, which the Python core and the jar have to tell alike. Pure.
Imports: nothing of this package. Used by: errors, dbapi, and the dialect and the dbt adapter.
"""

from __future__ import annotations

import re

HIDDEN = "***"

_SECRET = re.compile(
    r"secret|passw|passphrase|pwd|token|credential|authorization"
    r"|(?:api|access|account|private|encryption).?key|[._-]key$",
    re.IGNORECASE,
)
# Names of columns are no secrets.
_DATA_KEY = re.compile(r"(?:unique|primary|foreign|partition|sort|merge)[._-]key$", re.IGNORECASE)
# Greedy: a password that nobody has encoded may hold a slash or an @. Bounded: texts are long.
_USER = re.compile(r"(//?[^\s/:@\"`]{0,255}):[^\s\"`]{1,999}@")
_USER_ALONE = re.compile(r"(?<![^\s\"'=(`])([\w.+-]{1,255}):[^\s/\"`@]{1,999}@")
_VALUE = (
    r"\"[^\"\\]*(?:\\.[^\"\\]*){0,99}\"|'[^'\\]*(?:\\.[^'\\]*){0,99}'"
    r"|`[^`]*`|[^\s,;&\"'`)\]}]+"
)
_NAMED = re.compile(rf"()\b([A-Za-z_][\w.-]{{0,255}})(\s*=>?\s*)({_VALUE})")
_QUOTED = re.compile(rf"([\"'`])([\w.-]{{1,256}})(\1\s*(?:=>?|:)\s*)({_VALUE})")
_BEARER = re.compile(r"\b(bearer|basic) +[A-Za-z0-9._~+/-]{8,}=*", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Tell by an option's name whether its value is for nobody to see."""
    return bool(_SECRET.search(name)) and not _DATA_KEY.search(name)


def masked(text: str) -> str:
    """
    Hide the secrets in a text: passwords in URIs, and the values of options that are secrets.

    Options are `name=value`, `'name': value` and `name => value`, with or without quotes.
    """
    text = _USER.sub(rf"\1:{HIDDEN}@", text)
    text = _USER_ALONE.sub(rf"\1:{HIDDEN}@", text)
    text = _NAMED.sub(_named, _QUOTED.sub(_named, text))
    return _BEARER.sub(rf"\1 {HIDDEN}", text)


def _named(found: re.Match[str]) -> str:
    quote, name, between, value = found.groups()
    if not is_secret(name):
        return found[0]
    around = value[0] if value[0] in "\"'`" else ""
    return f"{quote}{name}{between}{around}{HIDDEN}{around}"
