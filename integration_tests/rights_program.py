"""
A Python program for the tests of rights: `python -m integration_tests.rights_program`.

It does what a line of its standard input says, in a handle of its own, and answers in a line.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from click.testing import CliRunner
from pyiceberg.catalog import load_catalog

import txns
from integration_tests.fault_program import SCHEMA
from txns import _cli

if TYPE_CHECKING:
    from collections.abc import Callable


def _count(handle: txns.Handle, *tables: str) -> list[int]:
    snapshot = handle.snapshot()
    return [snapshot.load_table(table).scan().to_arrow().num_rows for table in tables]


def _append(handle: txns.Handle, *tables: str) -> bool | None:
    """Append a row to tables in one transaction; give whether it is applied to all."""
    txn = handle.begin()
    try:
        for table in tables:
            txn.load_table(table).append(pa.table({"id": ["python"]}, schema=SCHEMA))
        return txn.commit().applied
    except Exception:
        txn.rollback()
        raise


def _mark(handle: txns.Handle, table: str) -> None:
    """Write a table without a file of data: a property."""
    with handle.catalog().load_table(table).transaction() as changes:
        changes.set_properties(marked="yes")


def _drop(handle: txns.Handle, table: str) -> None:
    handle.catalog().drop_table(table)


def _apply(handle: txns.Handle) -> list[str]:
    return [".".join(table) for table in handle.apply_le()]


PARTS: dict[str, Callable[..., Any]] = {
    "count": _count,
    "append": _append,
    "mark": _mark,
    "drop": _drop,
    "apply": _apply,
    "tidy": lambda handle: handle.tidy(),
    "purge": lambda handle, table: handle.purge(table).deleted_files,
}


def main() -> None:
    """Take the catalog's properties as JSON, then lines: a part, or `txns`, with its arguments."""
    properties = json.loads(sys.argv[-1])
    options = [f"--{name}={properties[name]}" for name in ("uri", "warehouse")]
    for line in sys.stdin:
        what, *arguments = json.loads(line)
        try:
            if what == "txns":
                found: Any = CliRunner().invoke(_cli.main, ["--catalog=lake", *options, *arguments])
                answer = ["done", [found.exit_code, found.stdout, found.stderr]]
            else:
                handle = txns.open(load_catalog("lake", **properties))
                answer = ["done", PARTS[what](handle, *arguments)]
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is what a user sees
            answer = [type(error).__name__, str(error)]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
