"""
A Python writer for the tests of faults: `python -m integration_tests.fault_program`.

It appends one row to every table in each transaction, under an id of its own, until it knows what
became of it; says so in a line; and ends when it is told to, by a line on its standard input.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from itertools import count

import pyarrow as pa
from pyiceberg.catalog import load_catalog

import txns
from txns._admin import orphans

PAUSE_S = 0.05
SCHEMA = pa.schema([pa.field("id", pa.string())])


def _write(handle: txns.Handle, name: str, tables: list[str], stopped: threading.Event) -> None:
    for number in count(1):
        if stopped.is_set():
            return
        _until_known(handle, f"{name}/{number}", tables)


def _until_known(handle: txns.Handle, txn_id: str, tables: list[str]) -> None:
    """Commit under an id as docs/python.md says: again under the same one until it is told."""
    row = pa.table({"id": [txn_id]}, schema=SCHEMA)
    while True:
        try:
            with handle.begin(txn_id=txn_id) as txn:
                for table in tables:
                    txn.load_table(table).append(row)
        except txns.Conflict:
            say("refused", txn_id)
            return
        except txns.CommitStateUnknown:
            say("unknown", txn_id)
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is no outcome
            say("failed", txn_id, type(error).__name__, " ".join(str(error).split())[:200])
        else:
            say("committed", txn_id)
            return
        time.sleep(PAUSE_S)


def _destroy(handle: txns.Handle, name: str, tables: list[str], stopped: threading.Event) -> None:
    """Try all that destroys something by its age, a drop's and a table's; say what is told."""
    del stopped
    dropped, kept = tables
    table = handle.catalog().load_table(kept)
    oldest, *_ = table.snapshots()
    tries = {
        "purge": lambda: handle.purge(dropped),
        "expire": lambda: table.maintenance.expire_snapshots().by_id(oldest.snapshot_id).commit(),
        "tidy": lambda: orphans.remove(handle.parts),
    }
    for what, attempt in tries.items():
        try:
            found = attempt()
        except txns.TxnsError as error:
            say(what, name, error.sqlstate, str(error))
        else:
            say(what, name, "done", repr(found))


def say(word: str, txn_id: str, *words: str) -> None:
    """Print what became of a try, and when by the machine's own clock, which nobody sets."""
    print(word, txn_id, f"{time.monotonic():.3f}", *words, flush=True)


def stop_at_line() -> threading.Event:
    """Give what is set when a line, or the end, is read from standard input."""
    stopped = threading.Event()

    def read() -> None:
        sys.stdin.readline()
        stopped.set()

    threading.Thread(target=read, daemon=True).start()
    return stopped


def main() -> None:
    """Do `what`: then come a name, the tables and the catalog's properties, both as JSON."""
    what, name, tables, properties = sys.argv[1:]
    handle = txns.open(load_catalog("lake", **json.loads(properties)))
    {"write": _write, "destroy": _destroy}[what](handle, name, json.loads(tables), stop_at_line())


if __name__ == "__main__":
    main()
