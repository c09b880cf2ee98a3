"""
What may stand in a message: no secret, and no character that moves a terminal.

`docs/golden/messages.json` has cases, which txns_spark and the jar have to tell alike. Pure.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

HIDDEN = "***"

_HALF = 5000
"""Of a long text, the characters that are shown of its beginning, and of its end."""

_AROUND = 1500
"""How far a secret reaches, at most, with what tells that it is one."""

_SECRET = re.compile(
    r"secret|passw|passphrase|pwd|token|credential|authorization|signature|cookie"
    r"|(?:api|access|account|private|encryption).?key|[._-]key$|(?:^|[._-])(?:pass|auth|sig|sas)$",
    re.IGNORECASE,
)
# Names of columns are no secrets.
_DATA_KEY = re.compile(r"(?:unique|primary|foreign|partition|sort|merge)[._-]key$", re.IGNORECASE)
# Ids of transactions as our own messages have them: who asks for an outcome needs them as they are.
_ID = re.compile(r"\b(?:txn|clashed_with)=`[^`]*`|\b(?:BEGIN ID |txn_id=)'(?:[^']|'')*'")
# Greedy: a password that nobody has encoded may hold a slash or an @. Bounded: texts are long.
_USER = re.compile(r"(//?[^\s/:@\"`]{0,255}):[^\s\"`]{1,999}@")
_USER_ALONE = re.compile(r"(?<![^\s\"'=(`])([\w.+-]{1,255}):[^\s/\"`@]{1,999}@")
_ORACLE = re.compile(r"(\bjdbc:oracle:\w{1,20}:[^\s/@\"`]{1,255})/[^\s\"`]{1,999}@")
# What follows a comma at once, and is no option of its own, is still the value.
_BARE = r"[^\s,;&\"'`)\]}]"
_VALUE = (
    r"\"[^\"\\]*(?:\\.[^\"\\]*){0,99}\"|'[^'\\]*(?:\\.[^'\\]*){0,99}'"
    rf"|`[^`]*`|{_BARE}+(?:,(?![\w.-]{{1,255}}\s*[=:]){_BARE}+){{0,99}}"
)
_NAMED = re.compile(rf"()\b([A-Za-z_][\w.-]{{0,255}})(\s*=>?\s*)({_VALUE})")
_QUOTED = re.compile(rf"([\"'`])([\w.-]{{1,256}})(\1\s*(?:=>?|:)\s*)({_VALUE})")
# As YAML has them: in a sentence, what stands before a colon names nothing.
_LISTED = re.compile(
    r"((?:^|[\n{,;])[ \t-]{0,99})([A-Za-z_][\w.-]{0,255})"
    rf"(:[ \t]+)(?!bearer\b|basic\b)({_VALUE})",
    re.IGNORECASE,
)
_COOKIE = re.compile(
    r"\b(cookie\s{0,9}[:=]\s{0,9})[^\s,;=\"'`]+=[^\s,;\"'`]*(?:; ?[^\s,;\"'`]+){0,99}",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(bearer|basic) +[A-Za-z0-9._~+/-]{8,}=*", re.IGNORECASE)
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_QUOTING = frozenset(" \"'`=\\")
_BYTES = 256
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def is_secret(name: str) -> bool:
    """Tell by an option's name whether its value is for nobody to see."""
    return bool(_SECRET.search(name)) and not _DATA_KEY.search(name)


def masked(text: str) -> str:
    """
    Hide the secrets in a text: passwords in URIs, and the values of options that are secrets.

    Options are `name=value`, `'name': value` and `name => value`, with or without quotes, and
    `name: value` where it begins a line or follows another one. Ids of transactions stay.
    """
    shown, end = [], 0
    for found in _ID.finditer(text):
        shown += [_without_secrets(text[end : found.start()]), found[0]]
        end = found.end()
    return "".join([*shown, _without_secrets(text[end:])])


def _without_secrets(text: str) -> str:
    text = _USER.sub(rf"\1:{HIDDEN}@", text)
    text = _USER_ALONE.sub(rf"\1:{HIDDEN}@", text)
    text = _ORACLE.sub(rf"\1/{HIDDEN}@", text)
    text = _COOKIE.sub(rf"\1{HIDDEN}", text)
    for option in (_QUOTED, _NAMED, _LISTED):
        text = option.sub(_named, text)
    return _BEARER.sub(rf"\1 {HIDDEN}", text)


def _named(found: re.Match[str]) -> str:
    quote, name, between, value = found.groups()
    if not is_secret(name):
        return found[0]
    around = value[0] if value[0] in "\"'`" else ""
    return f"{quote}{name}{between}{around}{HIDDEN}{around}"


def printable(text: str) -> str:
    r"""
    Write a text so that it moves no terminal: control characters as `\n`, `\x1b`, `\u202e`.

    They are C0, DEL and C1, what ends a line in Unicode, what turns the direction of writing, and
    halves of pairs, which no terminal takes.
    """
    return _CONTROL.sub(_escaped, text)


def field(value: str) -> str:
    r"""
    Write a value as it stands behind `name=` in a line of a log.

    Printable, and in double quotes where it is empty, or has a space, a quote, `=` or `\`; there
    `"` and `\` have a `\` before them.
    """
    shown = printable(value)
    if shown and not _QUOTING.intersection(shown):
        return shown
    return '"' + shown.replace("\\", r"\\").replace('"', r"\"") + '"'


def message(text: str) -> str:
    """
    Give a text as it may stand in an error: without secrets, printable, and not without end.

    Of a long one its beginning and its end stand, where what was found and its cure are: others'
    words may be millions of characters, and each looks for secrets in them.
    """
    if len(text) <= 2 * (_HALF + _AROUND):
        return printable(masked(text))
    # What tells a secret may lie beyond a cut.
    head, tail = masked(text[: _HALF + _AROUND]), masked(text[-_HALF - _AROUND :])
    left_out = f" [{len(text) - 2 * _HALF} characters] "
    return printable(head[:_HALF] + left_out + tail[-_HALF:])


def said(error: BaseException | None) -> str:
    """
    Give what an error says, as people may see it: what a catalog or storage says has secrets.

    Our own errors are made so; whatever tells of others' goes through this. "" for none.
    """
    return message(str(error)) if error else ""


def said_by(error: BaseException) -> str:
    """Give what an error says, behind its kind; see `said`."""
    return f"{type(error).__name__}: {said(error)}"


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    number = ord(character)
    return _SHORT.get(character) or (f"\\x{number:02x}" if number < _BYTES else f"\\u{number:04x}")


def time_of(ts: int | None) -> str:
    """Write a timestamp in ms as a time of UTC."""
    if not ts:
        return "never"
    try:
        at = datetime.fromtimestamp(ts / 1000, UTC)
    except (ValueError, OverflowError):
        return str(ts)
    return f"{at:%Y-%m-%d %H:%M:%S}.{ts % 1000:03d}Z"
