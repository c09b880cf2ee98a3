"""What the actions ask of a table of Java's, as pyiceberg has it: they are told as calls."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.simulation.rows import rows_of
from tests.simulation.where import ALL, PART, part_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.manifest import DataFile
    from pyiceberg.transforms import BucketTransform
    from pyiceberg.types import IcebergType

    from tests.simulation.java_handle import JavaTable
    from tests.simulation.where import Where


def told(where: Where) -> dict[str, Any]:
    """Give what Java is told of a filter: nothing where it is none."""
    return {} if where == ALL else {"where": where.told()}


def added_file(file: DataFile) -> dict[str, Any]:
    """Give what Java is told of a file."""
    rows = rows_of(file.file_path)
    found = {"path": file.file_path, "rows": len(rows), "part": part_of(rows[0])}
    if not file.lower_bounds:
        return found
    parts = sorted(map(part_of, rows))
    bounds = (("id", min(rows), max(rows)), (PART, parts[0], parts[-1]))
    found["bounds"] = [{"column": name, "low": low, "high": high} for name, low, high in bounds]
    return found


def tasks(planned: dict[str, list[str]]) -> list[SimpleNamespace]:
    """Give what pyiceberg would of files, and of the delete files of each."""
    return [
        SimpleNamespace(
            file=SimpleNamespace(file_path=path),
            delete_files=[SimpleNamespace(file_path=each) for each in deletes],
        )
        for path, deletes in planned.items()
    ]


class Columns:
    def __init__(self) -> None:
        self.changes: list[dict[str, Any]] = []

    def add_column(self, name: str, field_type: IcebergType) -> None:
        self.changes.append({"change": "add", "name": name, "to": str(field_type)})

    def rename_column(self, name: str, to: str) -> None:
        self.changes.append({"change": "rename", "name": name, "to": to})

    def delete_column(self, name: str) -> None:
        self.changes.append({"change": "drop", "name": name})

    def update_column(
        self, name: str, field_type: IcebergType | None = None, doc: str | None = None
    ) -> None:
        if field_type is not None:
            self.changes.append({"change": "widen", "name": name, "to": str(field_type)})
        if doc is not None:
            self.changes.append({"change": "describe", "name": name, "to": doc})

    def move_first(self, name: str) -> None:
        self.changes.append({"change": "move", "name": name})


class Fields:
    def __init__(self) -> None:
        self.changes: list[dict[str, Any]] = []

    def add_field(self, source: str, transform: BucketTransform[Any, int], name: str) -> None:
        buckets = transform.num_buckets
        self.changes.append({"change": "add", "source": source, "buckets": buckets, "name": name})

    def remove_field(self, name: str) -> None:
        self.changes.append({"change": "remove", "name": name})


class Branches:
    def __init__(self, table: JavaTable) -> None:
        self._table = table
        self._arguments: dict[str, Any] = {}

    def create_branch(self, snapshot_id: int, name: str) -> Branches:
        self._arguments = {"name": name, "snapshot": snapshot_id}
        return self

    def commit(self) -> None:
        self._table.change("create_branch", **self._arguments)


class Changes:
    def __init__(self, table: JavaTable) -> None:
        self._table = table

    def update_snapshot(self, branch: str = "main") -> Snapshots:
        return Snapshots(self._table, branch)

    def set_properties(self, properties: dict[str, str]) -> None:
        self._table.change("set_properties", properties=properties)


class Snapshots:
    def __init__(self, table: JavaTable, branch: str) -> None:
        self._table = table
        self._branch = branch

    @contextmanager
    def fast_append(self) -> Iterator[Files]:
        files = Files()
        yield files
        self._table.change("append", files=files.added, branch=self._branch)

    @contextmanager
    def overwrite(self) -> Iterator[Files]:
        files = Files()
        yield files
        self._table.change("overwrite", removed=files.removed, added=files.added)


class Files:
    def __init__(self) -> None:
        self.added: list[dict[str, Any]] = []
        self.removed: list[str] = []

    def append_data_file(self, file: DataFile) -> None:
        self.added.append(added_file(file))

    def delete_data_file(self, file: Any) -> None:
        self.removed.append(file.file_path)
