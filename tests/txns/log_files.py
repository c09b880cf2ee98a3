"""Files of the commit table, and a catalog that does something else with a swap of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.sql import SqlCatalog

from tests.txns.lake import Lake, rows
from txns._iceberg.manifests import manifests_of

if TYPE_CHECKING:
    import txns


class Odd(SqlCatalog):
    """A catalog that does something else with the next swap of the commit table."""

    instead: Any = None
    down = False
    """Whether the commit table cannot be loaded."""

    def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
        def swap() -> Any:
            return super(Odd, self).commit_table(table, requirements, updates)

        if table.name() == ("txns", "commits") and self.instead:
            instead, self.instead = self.instead, None
            return instead(swap)
        return swap()

    def load_table(self, identifier: Any) -> Any:
        if self.down and identifier == ("txns", "commits"):
            raise ConnectionError("no route to host")
        return super().load_table(identifier)


def append(handle: txns.Handle, value: int) -> None:
    handle.catalog().load_table("shop.a").append(rows(value))


def staged(handle: txns.Handle, **options: Any) -> txns.Transaction:
    """Begin a transaction whose payload has a file of its own."""
    txn = handle.begin(**options)
    with txn.load_table("shop.a").transaction() as several:
        several.set_properties({f"key-{i}": "v" * 1000 for i in range(100)})
    return txn


def payloads(lake: Lake) -> set[str]:
    return {path for path in lake.files() if "/txns-payload-" in path}


def files(lake: Lake) -> set[str]:
    """Give the commit table's files but for those of its metadata."""
    return {path for path in lake.files() if "/commits" in path and not path.endswith(".json")}


def needed(lake: Lake) -> set[str]:
    """Give the files that the commit table names."""
    table = lake.catalog.load_table("txns.commits")
    lists = {each.manifest_list for each in table.metadata.snapshots}
    manifests = {each.manifest_path for one in lists for each in manifests_of(table.io, one)}
    data = {task.file.file_path for task in table.scan().plan_files()}
    return {path.removeprefix("file://") for path in lists | manifests | data}
