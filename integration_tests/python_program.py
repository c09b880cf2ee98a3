"""
A Python writer of its own, which a test kills: `python -m integration_tests.python_program`.

It works on the tables that a test has made, and prints a line for each step that is done.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from integration_tests import bank
from integration_tests.python_lake import open_lake

if TYPE_CHECKING:
    import txns


def _stage(handle: txns.Handle, name: str) -> None:
    """Change three tables and do not commit."""
    _change(handle.begin(), name)
    _say("staged")
    sys.stdin.read()


def _commit(handle: txns.Handle, name: str) -> None:
    """Change three tables and commit; with apply=next nothing is applied."""
    txn = handle.begin()
    _change(txn, name)
    _say("committed", str(txn.commit().applied))
    sys.stdin.read()


def _change(txn: txns.Transaction, name: str) -> None:
    named = pa.schema([pa.field("name", pa.string()), pa.field("number", pa.int32())])
    for table in ("db.a", "db.b"):
        txn.load_table(table).append(pa.table({"name": [name], "number": [0]}, schema=named))
    counter = txn.load_table("db.counter")
    counter.overwrite(
        pa.table(
            {"n": [counter.scan().to_arrow()["n"][0].as_py() + 1]},
            schema=pa.schema([pa.field("n", pa.int32())]),
        )
    )


def _say(*words: str) -> None:
    print(*words, flush=True)


def main() -> None:
    """Run `what` in a lake: arguments are what, the lake's folder, a name, options as JSON."""
    what, folder, name, given = sys.argv[1:]
    options = json.loads(given)
    if what == "bank":
        bank.run_python(Path(folder), name, _say, **options)
    else:
        {"stage": _stage, "commit": _commit}[what](open_lake(Path(folder), **options), name)


if __name__ == "__main__":
    main()
