"""
A Spark Connect client of its own, for pyspark-client alone: `python connect_program.py URL`.

It reads requests from standard input, a line of JSON each, and answers each with a line:

    {"open": 1}                      a session of its own
    {"session": 1, "sql": "..."}     {"columns": [...], "rows": [[...]]}, or {"error": {...}}
    {"close": 1}                     ends the session on the server

Values are given as JSON has them, and as text where it has none.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession


def _answer(url: str, sessions: dict[int, SparkSession], request: dict[str, Any]) -> dict[str, Any]:
    if "open" in request:
        sessions[request["open"]] = SparkSession.builder.remote(url).create()
        return {}
    if "close" in request:
        sessions.pop(request["close"]).stop()
        return {}
    try:
        frame = sessions[request["session"]].sql(request["sql"])
        return {"columns": frame.columns, "rows": [list(row) for row in frame.collect()]}
    except PySparkException as error:
        return {
            "error": {
                "type": type(error).__name__,
                "condition": error.getCondition(),
                "sqlstate": error.getSqlState(),
                "parameters": dict(error.getMessageParameters() or {}),
                "message": str(error),
            }
        }


def main() -> None:
    """Answer requests until standard input ends."""
    url = sys.argv[1]
    sessions: dict[int, SparkSession] = {}
    for line in sys.stdin:
        print(json.dumps(_answer(url, sessions, json.loads(line)), default=str), flush=True)


if __name__ == "__main__":
    main()
