"""Filters in words, as a conflict tells them."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from uuid import UUID

import pytest
from pyiceberg.expressions import And, EqualTo, In, Or
from pyiceberg.expressions.parser import parse

from txns._iceberg.filter_words import words


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("true", "true"),
        ("false", "false"),
        ("id > 0 and day = 1 or name = 'x'", "((id > 0 and day = 1) or name = 'x')"),
        ("not (a is null)", "not a is null"),
        ("a is not null", "a is not null"),
        ("a is nan", "a is nan"),
        ("id in (3, 1, 2)", "id in (1, 2, 3)"),
        ("id not in (1, 2)", "id not in (1, 2)"),
        ("id in (1, 2, 3, 4, 5, 6)", "id in (1, 2, 3, 4, 5, ...)"),
        ("name like 'a%'", "name starts with 'a'"),
        ("name not like 'a%'", "name does not start with 'a'"),
        ("d >= '2020-01-01'", "d >= '2020-01-01'"),
    ],
)
def test_words(written, told):
    assert told == words(parse(written))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (date(2013, 1, 2), "2013-01-02"),
        (time(4, 5, 6), "04:05:06"),
        (datetime(2013, 1, 2, 3, 4, 5), "2013-01-02T03:04:05"),  # noqa: DTZ001 -- as columns are
        (datetime(2013, 1, 2, 3, tzinfo=UTC), "2013-01-02T03:00:00"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        ("größer", "'größer'"),
    ],
)
def test_values_as_people_write_them(value, told):
    """Those of an upsert's keys, too: a literal has days, microseconds or bytes."""
    assert f"at = {told}" == words(EqualTo("at", value))
    assert told in words(In("at", [value, _another(value)]))


def _another(value):
    """Give another value of the same type: a list of one is told as one."""
    return {
        str: lambda: f"{value}!",
        UUID: lambda: UUID(int=8),
        time: lambda: time(23),
    }.get(type(value), lambda: value.replace(year=1999))()


def test_many_words_are_cut():
    """An upsert of two keys has a condition for each row; a scan may be made again and again."""
    one, two = parse("id = 1"), parse("day = 2")
    assert "id = 1 or day = 2" == words(one, two, one)
    rows = [And(EqualTo("id", n), EqualTo("day", "x" * 9)) for n in range(10_000)]
    assert 1003 == len(words(Or(*rows)))
    assert 1003 == len(words(*rows))
    assert 1003 == len(words(EqualTo("name", "x" * 5000)))
