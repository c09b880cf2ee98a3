"""The markers of a statement are those of Spark's own lexer."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import pytest

from txns_spark.dbapi._markers import code_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What begins or ends tokens, or seems to.
_PIECES = [
    *(
        "?",
        "?",
        "?",
        "'",
        '"',
        "`",
        "\\",
        "--",
        "/*",
        "*/",
        "/*+",
        "+",
        "*",
        "/",
        "\n",
        "\r",
        "\r\n",
        " ",
    ),
    *("r", "R", "r'", 'R"', "X'", "a", "_", "1", "1e", "1.5", ".", "e", "L", "BD", "é", "ß", "²"),
    *("file", "://", "s3", "=", "&", "#", "%", "-", ":", "::", "(", ")", "[", "]", "<", ">", ">>"),
    *("''", '""', "``", "\\'", '\\"', "\\\n", "$", "{", "}", "@", ";", "😀", "\u00a0", "\x00"),
    *(" ? ", "'?'", "/* ? */", "-- ?\n", "SELECT ", "MAP<", "X"),
]


def _of_lexer(spark: SparkSession, sql: str) -> tuple[list[int], int]:
    """Return where Spark sees markers, and how far it can read at all."""
    jvm: Any = spark._jvm
    stream = jvm.org.antlr.v4.runtime.CharStreams.fromString(sql)
    parser = jvm.org.apache.spark.sql.catalyst.parser
    lexer = parser.SqlBaseLexer(parser.UpperCaseCharStream(stream))
    lexer.removeErrorListeners()
    # All tokens in one call, each as [@-1,first:last='text',<type>,line:column].
    listed, place, start, markers = lexer.getAllTokens().toString(), 0, 0, []
    while start < len(sql):
        found = re.compile(rf"\[@-1,{start}:(\d+)='").match(listed, place + 1)
        assert found is not None, (sql, listed[place:])
        text = sql[start : int(found[1]) + 1]
        shown = text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
        place = found.end() + len(shown)
        kind = re.compile(r"',<(\d+)>[^\]]*\],?").match(listed, place)
        assert kind is not None, (sql, listed[place:])
        place = kind.end()
        name = _name(parser, int(kind[1]))
        if name == "UNRECOGNIZED":
            return markers, start
        if name == "QUESTION":
            markers.append(start)
        start += len(text)
    return markers, len(sql)


_NAMES: dict[int, str] = {}


def _name(parser: Any, kind: int) -> str:
    if kind not in _NAMES:
        _NAMES[kind] = str(parser.SqlBaseLexer.VOCABULARY.getSymbolicName(kind))
    return _NAMES[kind]


@pytest.mark.parametrize("count", [500, pytest.param(20_000, marks=pytest.mark.slow)])
def test_markers_are_found_as_spark_finds_them(root_session: SparkSession, count: int) -> None:
    """In any text, up to a character that begins no token: Spark refuses such a statement."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    seeded = random.Random(seed)
    seen = 0
    for _ in range(count):
        sql = "".join(seeded.choices(_PIECES, k=seeded.randint(1, 15)))
        expected, end = _of_lexer(root_session, sql)
        code = code_of(sql)
        assert len(sql) == len(code)
        found = [place for place, char in enumerate(code[:end]) if char == "?"]
        assert (sql, expected) == (sql, found)
        seen += len(found)
    assert seen > count // 50
