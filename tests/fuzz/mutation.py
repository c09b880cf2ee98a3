"""
JSON and texts made hostile: by mutation of what is valid, and from nothing.

Structure comes first, since most of what is not JSON at all is refused by the same line. A value
may hold `Raw`, which is written as it stands: tokens that no library writes.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random


class Raw(str):
    """A piece of JSON that is written as it stands."""

    __slots__ = ()


class Pairs(list[tuple[str, Any]]):
    """An object whose keys may come several times."""


NUMBERS = [
    *("0", "-0", "1", "-1", "7", "64", "65", "1000", "1001", "2147483647", "2147483648"),
    *("-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775808", "-9223372036854775809", "18446744073709551616"),
    *("1.0", "1.5", "1e2", "1E+2", "-0.0", "1e-999999999", "1e999999999", "1e400", "-1e400"),
    *("NaN", "Infinity", "-Infinity", "01", "+1", "1.", ".5", "0x1f", "1_000", "\u0661"),
    *("1" + "0" * 99, "1" + "0" * 100, "1" + "0" * 1001, "1" + "0" * 4301, "0." + "1" * 1001),
]
"""Numbers of JSON, or what looks like one."""

TEXTS = [
    *("", " ", "\t", "\u00a0", "\u2003", "\u3000", "\x00", "\x1f", "\x85", "\u2028", "\ufeff"),
    *("\ud800", "\udc00", "a\udfffb", "\U0001f600", "e\u0301", "\u202e", "ﬀ", "İ", "ß"),
    *("a.b", "`", "``", "`a", "a`.`b", ".", "..", "../../etc/passwd", "a/b", "main", "txns"),
    *("txns.commits", "txns-outstanding", "txns-foreign-11", "txns-kept-11-5", "txns-hold-x"),
    *("null", "true", "0", "1", "-1", "+1", "01", "1 ", "1.0", "1e3", "٣", "9223372036854775807"),
    *("9223372036854775808", "99999999999999999999999999", "9" * 5000, "1,2", "1,,2", "x,1", ","),
    *("append", "overwrite", "delete", "replace", "create", "alter", "drop", "commit", "tidy"),
    *("register", "forget", "adopt", "repair", "quarantine", "advance", "off", "on", "abort"),
    *("snapshot", "serializable", "strict-serializable", "SERIALIZABLE", "branch", "tag"),
    *("%s%n%d", "{}", "${a}", "'", '"', "\\", "\n", "password=hunter2", "<a>", "a" * 300),
    *("c8f2a7e4-5b19-4f63-a0d2-6e4b8c1f9d03", "C8F2A7E4-5B19-4F63-A0D2-6E4B8C1F9D03", "not-a-uuid"),
    *("long", "int", "string", "binary", "decimal(99,1)", "decimal(9,2)", "decimal(", "fixed[-1]"),
    *("fixed[99999999999]", "identity", "bucket[0]", "bucket[4]", "truncate[-1]", "void", "year"),
    *(
        "unknown",
        "variant",
        "geometry",
        "timestamp_ns",
        "list",
        "map",
        "struct",
        "asc",
        "nulls-first",
    ),
]
"""Texts that are something to somebody."""

COLLIDING = ["Aa", "BB"]
"""What has one hash in Java; so have all texts of as many of them."""


def dump(value: Any) -> str:
    """Write a value as JSON, with what stands raw in it, and with keys that come again."""
    out: list[str] = []
    stack: list[Any] = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, Raw):
            out.append(str(one))
        elif isinstance(one, dict | Pairs):
            pairs = list(one.items()) if isinstance(one, dict) else list(one)
            parts: list[Any] = [Raw("{")]
            for number, (key, inner) in enumerate(pairs):
                parts += [Raw("," if number else ""), Raw(json.dumps(key) + ":"), inner]
            stack.extend(reversed([*parts, Raw("}")]))
        elif isinstance(one, list):
            parts = [Raw("[")]
            for number, inner in enumerate(one):
                parts += [Raw("," if number else ""), inner]
            stack.extend(reversed([*parts, Raw("]")]))
        else:
            out.append(json.dumps(one))
    return "".join(out)


def hostile_value(rng: Random) -> Any:
    """Give a value that nobody expects somewhere."""
    choice = rng.randrange(12)
    if choice < 4:
        return Raw(rng.choice(NUMBERS[:-2]) if rng.random() < 0.9 else rng.choice(NUMBERS))
    if choice < 7:
        return rng.choice(TEXTS)
    if choice == 7:
        return _nested(rng, rng.choice([1, 5, 60, 63, 64, 65, 70, 500, 1100]))
    if choice == 8:
        return [hostile_value(rng) for _ in range(rng.randrange(4))]
    if choice == 9:
        return {rng.choice(TEXTS): hostile_value(rng) for _ in range(rng.randrange(4))}
    return rng.choice([None, True, False, [], {}])


def _nested(rng: Random, depth: int) -> Any:
    opening, closing = rng.choice([("[", "]"), ('{"a":', "}"), ('{"fields":[', "]}")])
    return Raw(opening * depth + "0" + closing * depth)


def small_number(rng: Random, value: int) -> int:
    """Give a number near another one, or another one at all."""
    return rng.choice([value + 1, value - 1, -value, 0, 1, value * 2, rng.randrange(-5, 50)])


def places(value: Any) -> list[tuple[Any, Any]]:
    """Give each place in a value: what holds it, and under which key or index."""
    found: list[tuple[Any, Any]] = []
    stack = [value] if isinstance(value, dict | list) else []
    while stack:
        one = stack.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one))
        for key in keys:
            found.append((one, key))
            if isinstance(one[key], dict | list) and not isinstance(one[key], Pairs):
                stack.append(one[key])
    return found


def mutated(rng: Random, value: Any, others: list[Any]) -> Any:
    """
    Give a copy of a value with something changed in its structure.

    Args:
        rng: The chance of this input.
        value: JSON as Python has it.
        others: Parts of other values, to be put in its place.
    """
    value = copy.deepcopy(value)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 5])):
        found = places(value)
        if not found:
            return hostile_value(rng)
        holder, key = rng.choice(found)
        _change(rng, holder, key, others)
    return value


def _change(  # noqa: C901 -- one for each kind of change
    rng: Random, holder: Any, key: Any, others: list[Any]
) -> None:
    choice = rng.randrange(14)
    here = holder[key]
    if choice == 0:
        del holder[key]
    elif choice < 4:
        holder[key] = hostile_value(rng)
    elif choice < 7 and isinstance(here, int) and not isinstance(here, bool):
        holder[key] = small_number(rng, here)
    elif choice < 7 and isinstance(here, str):
        holder[key] = mutated_text(rng, here)
    elif choice == 7 and isinstance(holder, dict):
        holder[rng.choice(TEXTS)] = holder.pop(key)
    elif choice == 8 and isinstance(holder, list):
        holder.insert(rng.randrange(len(holder) + 1), copy.deepcopy(here))
    elif choice == 9 and isinstance(holder, list):
        rng.shuffle(holder)
    elif choice == 10 and isinstance(here, dict) and here:
        again = rng.choice(list(here.items()))
        holder[key] = Pairs([*here.items(), (again[0], hostile_value(rng))])
    elif choice == 11 and isinstance(here, list) and here:
        holder[key] = here * rng.choice([2, 3, 50])
    elif others:
        holder[key] = copy.deepcopy(rng.choice(others))


def mutated_text(rng: Random, text: str) -> str:  # noqa: PLR0911 -- one for each kind of change
    """Give a text with something changed in its characters."""
    choice = rng.randrange(10)
    at = rng.randrange(len(text) + 1)
    to = min(len(text), at + rng.choice([1, 1, 2, 8, 64]))
    if choice == 0:
        return text[:at]
    if choice == 1:
        return text[:at] + text[to:]
    if choice == 2:
        return text[:at] + text[at:to] * rng.choice([2, 3, 100]) + text[to:]
    if choice == 3:
        return text[:at] + rng.choice(TEXTS) + text[at:]
    if choice == 4:
        return text[:at] + chr(rng.choice([0, 9, 10, 34, 44, 46, 92, 96, 0x7F, 0xD800])) + text[to:]
    if choice == 5:
        return text + rng.choice([" ", "\n", "x", "{}", "[]", ",", "\x00", "\ufeff", "]", "null"])
    if choice == 6:
        return rng.choice(["\ufeff", " ", "\n", "\x00", ",", "// a\n"]) + text
    if choice == 7:
        return text.swapcase()
    if choice == 8 and any(each.isdigit() for each in text):
        digits = [n for n, each in enumerate(text) if each.isdigit()]
        at = rng.choice(digits)
        return text[:at] + rng.choice([*"0123456789", "", "-", ".5", "e9"]) + text[at + 1 :]
    return rng.choice(TEXTS)


def mutated_bytes(rng: Random, stored: bytes) -> bytes:
    """Give bytes that are no UTF-8 any more, or of another encoding."""
    choice = rng.randrange(9)
    at = rng.randrange(len(stored) + 1)
    if choice == 0:
        return stored[:at] + bytes([rng.randrange(256)]) + stored[at + 1 :]
    if choice == 1:
        return stored[:at] + rng.choice(
            [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80"]
        )
    if choice == 2:
        broken = rng.choice([b"\x80", b"\xc3", b"\xe2\x82", b"\xed\xbf\xbf", b"\xf4\x90\x80\x80"])
        return stored[:at] + broken + stored[at:]
    text = stored.decode("utf-8", "replace")
    if choice < 7:
        encoding = ["utf-16", "utf-16-le", "utf-32", "utf-8-sig"][choice - 3]
        return text.encode(encoding, "replace")
    return text.encode("latin-1", "replace") if choice == 7 else stored[:at]
