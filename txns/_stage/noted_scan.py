"""pyiceberg's scan of a table, that notes what it reads when it plans which files that takes."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

from pyiceberg.table import DataScan

from txns._stage.read_set import EVERYTHING, RowFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from pyiceberg.table import FileScanTask
    from pyiceberg.table.snapshots import Snapshot

_OF_A_SCAN = signature(DataScan.__init__).parameters.keys() - {"self"}


class NotedScan(DataScan):
    """A scan of a table as a transaction has it; one of an explicit snapshot notes nothing."""

    def noting(self, on_read: Callable[[RowFilter], None]) -> Self:
        """Tell something the filter by which it reads rows; give the scan itself."""
        self._on_read = on_read
        self._plans = False
        return self

    @staticmethod
    def of(scan: DataScan, on_read: Callable[[RowFilter], None]) -> NotedScan:
        """Make of a scan one that tells the filter by which it reads rows."""
        asked: dict[str, Any] = {name: getattr(scan, name) for name in _OF_A_SCAN}
        return NotedScan(**asked).noting(on_read)

    def update(self, **overrides: Any) -> Self:
        """Copy it with other fields; see pyiceberg's own."""
        return super().update(**overrides).noting(self._on_read)

    def use_ref(self, name: str) -> Self:
        """Scan a branch, or a tag: it goes on, where a snapshot's id does not."""
        self._on_read(EVERYTHING)
        return super().use_ref(name)

    def snapshot(self) -> Snapshot | None:
        """Give what it is a scan of, which says whether others have written."""
        if not self.snapshot_id and not self._plans:  # 0 is none to pyiceberg
            self._on_read(EVERYTHING)
        return super().snapshot()

    def plan_files(self) -> Iterable[FileScanTask]:
        """Plan which files hold rows that match; whatever reads rows asks for that."""
        if not self.snapshot_id:
            self._on_read(RowFilter.of(self.table_metadata, self.row_filter, self.case_sensitive))
        self._plans = True
        try:
            return super().plan_files()
        finally:
            self._plans = False
