"""
Holds users of a log in which somebody forges records against what no record may make them do.

Docs/security.md, "What a record cannot do". Each swap, rename and drop, and each file that is
written or deleted, is judged when it happens. What tables in care hold is a forger's to say.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulation.rights import lies_below
from tests.simulation.scheduler import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table.metadata import TableMetadata

    from tests.simulation.attempts import Identifier
    from tests.simulation.catalogs import Registry

FORGER, OTHER_LOGS = "m", "o"
"""The workers that write the log as they like, and the tables of another one."""
PROMISE = "outside the care"
READABLE = "readable"
_LOG: Identifier = ("txns", "commits")
_PATHS = (
    "write.metadata.path",
    "write.data.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
_LOGS_PATHS = ("write.metadata.path", "write.data.path")


@dataclass
class Guard:
    """
    Keeps those apart who may be told what to do by a forged record, and what is none of theirs.

    Attributes:
        registry: What is judged.
        others: The tables that are not in this log's care, by uuid: name and location.
        log_folder: The commit table's location, before anybody moves it.
        log_uuid: Its uuid.
        astray: New files of the log: they lie where its table says that it does (docs/security.md),
            and may be removed again.
        stands_aside: Whether somebody is at work of whom nothing is said.
    """

    registry: Registry
    others: dict[str, tuple[Identifier, str]] = field(default_factory=dict)
    log_folder: str = ""
    log_uuid: str = ""
    stands_aside: bool = False
    astray: set[str] = field(default_factory=set)

    def keep(self, *names: Identifier) -> None:
        """Note tables that none of ours may touch, as they stand; and where the log is."""
        log = self.registry.metadata(_LOG)
        self.log_folder, self.log_uuid = log.location, str(log.table_uuid)
        for name in names:
            metadata = self.registry.metadata(name)
            self.others[str(metadata.table_uuid)] = (name, metadata.location)

    # ------------------------------------------------------------ tables

    def on_commit(self, name: Identifier, old: TableMetadata | None, new: TableMetadata) -> None:
        """Judge a swap."""
        if self._is_free() or name == _LOG:
            return
        self._refuse_other(name, old or new)
        before = {each.snapshot_id for each in old.snapshots} if old else set[int]()
        for each in new.snapshots:
            if each.snapshot_id in before:
                continue
            if self._is_others(each.manifest_list):
                self._broken(f"{name} reads another table's manifests: {each.manifest_list}")
            if not self.registry.storage.holds(each.manifest_list):
                why = f"{self._who()}: {name} gets a list that is not there: {each.manifest_list}"
                raise Violation(READABLE, why)
        for place in self._moved_to(old, new):
            if not lies_below(place, "memory://lake/lake") or self._overlaps(place):
                self._broken(f"{name} stands at another's place: {place}")

    def on_rename(self, old: Identifier, new: Identifier) -> None:
        """Judge a rename."""
        if not self._is_free():
            self._refuse_other(old, self.registry.metadata(new))

    def on_drop(self, name: Identifier, metadata: TableMetadata) -> None:
        """Judge that a name is taken out of the catalog."""
        if not self._is_free():
            self._refuse_other(name, metadata)

    @staticmethod
    def _moved_to(old: TableMetadata | None, new: TableMetadata) -> list[str]:
        """Give where a swap puts a table."""
        known = old.properties if old else {}
        paths = [new.properties[key] for key in _PATHS if key in new.properties]
        places = [*paths, new.location]
        return [each for each in places if each not in {*known.values(), old and old.location}]

    def _refuse_other(self, name: Identifier, metadata: TableMetadata) -> None:
        names = {other for other, _location in self.others.values()}
        if name in names or str(metadata.table_uuid) in self.others:
            self._broken(f"{name} is changed, which is not in this log's care")

    # ------------------------------------------------------------ files

    def before_write(self, location: str) -> None:
        """Judge that a file is written."""
        if self._is_free():
            return
        if location not in self.registry.storage.files and self._is_of_log(location):
            self.astray.add(location)
            return
        self._refuse_place(location, "writes")

    def before_delete(self, location: str) -> None:
        """Judge that a file is deleted."""
        if self._is_free() or location in self.astray:
            return
        self._refuse_place(location, "deletes")
        if location in self.registry.pointers.values():
            self._broken(f"a table's metadata is deleted: {location}")

    def _refuse_place(self, location: str, deed: str) -> None:
        ours = lies_below(location, self.log_folder) or lies_below(location, "memory://lake/lake")
        if not ours or self._is_others(location):
            self._broken(f"{self._who()} {deed} what is none of the log's: {location}")

    def _is_of_log(self, location: str) -> bool:
        """Whether it is a file of the log, which lie where its table says, even elsewhere."""
        log = self.registry.metadata(_LOG)
        places = [log.location, *(log.properties.get(key, "") for key in _LOGS_PATHS)]
        return any(each and lies_below(location, each) for each in places)

    def _is_others(self, path: str) -> bool:
        return any(lies_below(path, location) for _name, location in self.others.values())

    def _overlaps(self, place: str) -> bool:
        return any(
            place == location or lies_below(place, location) or lies_below(location, place)
            for _name, location in self.others.values()
        )

    # ------------------------------------------------------------ who

    def _who(self) -> str:
        actor = self.registry.storage.world.actor
        return actor.doing or actor.name

    def _is_free(self) -> bool:
        """Whether it is somebody of whom nothing is said here: a forger has rights of his own."""
        return self.stands_aside or self._who().split(".")[0] in {FORGER, OTHER_LOGS}

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Judge nothing for a while."""
        self.stands_aside = True
        try:
            yield
        finally:
            self.stands_aside = False

    def _broken(self, why: str) -> None:
        raise Violation(PROMISE, f"{self._who()}: {why}")
