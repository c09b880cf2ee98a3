"""Savepoints of a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns.errors import InvalidUsage

if TYPE_CHECKING:
    from txns._iceberg.recorded_io import RecordedIO
    from txns._identifier import Identifier
    from txns._stage.staged_table import Point, StagedTable


class Savepoints:
    """Moments of a transaction by name, in the order in which they were set."""

    def __init__(self) -> None:
        self._points: dict[str, dict[Identifier, tuple[StagedTable, Point]]] = {}

    def remember(self, name: str, staged: dict[Identifier, StagedTable]) -> None:
        """Remember a moment; a name used again hides the older one."""
        self._points.pop(name, None)
        self._points[name] = {table: (each, each.point) for table, each in staged.items()}

    def back_to(
        self, name: str, staged: dict[Identifier, StagedTable]
    ) -> tuple[dict[Identifier, StagedTable], list[tuple[RecordedIO, list[str]]]]:
        """
        Undo what was staged since a moment; the savepoint stays.

        Returns:
            What is staged then, and the files that nothing needs then: to be deleted when
            nothing points to them any more.

        Raises:
            InvalidUsage: 3B001 for an unknown savepoint.
        """
        points = self._known(name)
        earlier = {id(each): point for each, point in points.values()}
        undone = [(each.io, each.files_since(earlier.get(id(each)))) for each in staged.values()]
        for each, point in points.values():
            each.point = point
        self._forget_since(name, itself=False)
        return {table: each for table, (each, _) in points.items()}, undone

    def release(self, name: str) -> None:
        """
        Forget a savepoint and those after it.

        Raises:
            InvalidUsage: 3B001 for an unknown savepoint.
        """
        self._known(name)
        self._forget_since(name, itself=True)

    def _known(self, name: str) -> dict[Identifier, tuple[StagedTable, Point]]:
        points = self._points.get(name)
        if points is None:
            raise InvalidUsage(
                "3B001",
                f"there is no such savepoint; savepoint=`{name}` known=`{list(self._points)}`",
            )
        return points

    def _forget_since(self, name: str, *, itself: bool) -> None:
        names = list(self._points)
        for later in names[names.index(name) + (0 if itself else 1) :]:
            del self._points[later]
