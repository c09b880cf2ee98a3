"""Filters in words, as a conflict tells them."""

from __future__ import annotations

import pytest
from pyiceberg.expressions import And, EqualTo, Or
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


def test_many_words_are_cut():
    """An upsert of two keys has a condition for each row; a scan may be made again and again."""
    one, two = parse("id = 1"), parse("day = 2")
    assert "id = 1 or day = 2" == words(one, two, one)
    rows = [And(EqualTo("id", n), EqualTo("day", "x" * 9)) for n in range(10_000)]
    assert 1003 == len(words(Or(*rows)))
    assert 1003 == len(words(*rows))
    assert 1003 == len(words(EqualTo("name", "x" * 5000)))
