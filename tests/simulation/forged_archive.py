"""Archives of the commit table that a forger makes: rows of his own, and files of others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.types import LongType

from tests.simulation.rows import real_file
from txns._log.archive import ARROW_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.manifest import DataFile

    from tests.simulation.forger import Forger

_COMMIT_TS = 1


def rows_of_others(forger: Forger) -> str:
    """Write rows that name any table; give the manifest list that has them as well."""
    rows = [_row(forger) for _ in range(forger.rng.randint(1, 3))]
    arrow = pa.Table.from_pylist(rows, schema=ARROW_SCHEMA)
    return _appended(forger, _dataframe_to_data_files(forger.log, arrow, forger.table.io))


def files_of_others(forger: Forger) -> str:
    """Give a manifest list that has other tables' data files as files of the archive."""
    contents = forger.lake.observer.contents
    main = forger.metadata(forger.any_table()).current_snapshot()
    paths = contents.files(main) if main else set()
    bounds: dict[str, Any] = {}
    if forger.rng.random() < 0.7:
        bound = {_COMMIT_TS: to_bytes(LongType(), forger.upper)}
        bounds = {"lower_bounds": bound, "upper_bounds": bound}
    return _appended(forger, [real_file(path, forger.log, 1, **bounds) for path in sorted(paths)])


def _row(forger: Forger) -> dict[str, Any]:
    rng, name = forger.rng, forger.any_table()
    ts = rng.choice((forger.upper, max(1, forger.upper - rng.randint(1, 1000)), 1, 2**62))
    metadata = forger.metadata(name)
    return {
        "commit_ts": ts,
        "committed_at": datetime.fromtimestamp(min(ts, 10**14) / 1000, UTC),
        "txn_id": rng.choice((forger.txn_id, "job-a.0.bystander-transaction", "")),
        "kind": rng.choice(("commit", "forget", "repair", "register", "nothing")),
        "table_name": rng.choice((".".join(name), "``", "a..b", None)),
        "table_uuid": rng.choice((str(metadata.table_uuid), "x")),
        "operation": rng.choice(("append", "drop", "create", "x")),
        "parent_snapshot_id": None,
        "snapshot_id": rng.choice((metadata.current_snapshot_id, None, 7)),
        "added_records": rng.choice((0, -1)),
        "deleted_records": 0,
        "read_ts": 0,
        "isolation": rng.choice(("snapshot", "none")),
        "engine": "\x1b[2J",
        "comment": None,
    }


def _appended(forger: Forger, files: Iterable[DataFile]) -> str:
    """Write manifests of the archive with more files; give their list."""
    main = forger.log.current_snapshot()
    if main is None or any(key.endswith("-provider.impl") for key in forger.log.properties):
        return main.manifest_list if main else ""  # he does not run his own code
    transaction = forger.table.transaction()
    with transaction.update_snapshot().fast_append() as producer:
        for file in files:
            producer.append_data_file(file)
    added = [each for each in transaction._updates if isinstance(each, AddSnapshotUpdate)]
    return added[-1].snapshot.manifest_list
