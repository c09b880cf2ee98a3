"""
Two simulated catalogs over one registry of tables.

`SwapCatalog` moves a pointer from one metadata file to the next, as SqlCatalog does: it
can lose the race although every requirement held. `ServerCatalog` validates requirements
against the newest metadata in one step, as a REST server does: a commit without a
requirement that fails is accepted, whatever it was based on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from unittest import mock

import pyiceberg.catalog
from pyiceberg.catalog import MetastoreCatalog, PropertiesUpdateSummary
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TooManyRequestsError,
    UnauthorizedError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.typedef import EMPTY_DICT

from tests.simulation import java_rules, server_rules
from tests.simulation.attempts import folded
from tests.simulation.scheduler import Errors
from tests.simulation.settings import Switch
from tests.simulation.storage import SimulatedFileIO, Storage
from tests.simulation.table_checks import is_marked
from txns._iceberg.manifests import WRITABLE_FORMAT
from txns._iceberg.updates import with_known_references

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

    from tests.simulation.rights import Rights

T = TypeVar("T")
Identifier = tuple[str, ...]
OnCommit = Callable[[Identifier, "TableMetadata | None", "TableMetadata"], None]
OnRename = Callable[[Identifier, Identifier], None]
OnDrop = Callable[[Identifier, "TableMetadata"], None]

_REFUSALS = (BadRequestError, UnauthorizedError, ForbiddenError, TooManyRequestsError)
_REFUSALS_OF = {"swap": (*_REFUSALS, NoSuchTableError)}
"""What a server answers: 400, 401, 403, 429, of a commit 404 as well."""
_ASIDE = "__txns_purge_"
_BY_NUMBER = 0.3
"""How many lost swaps a server refuses by the sequence number of the snapshot."""
_LAG_MS = 4000
"""How far behind a replica may be."""

_SWAP_ERRORS = Errors(
    failed=lambda label: OSError(f"simulated: the catalog failed at {label}"),
    lost=lambda label: ConnectionError(f"simulated: the catalog's answer was lost at {label}"),
    called_lost=lambda label: CommitFailedException(f"simulated: falsely lost at {label}"),
    refused=lambda _kind, label, _rng: OSError(f"simulated: the catalog refused {label}"),
)
_SERVER_ERRORS = Errors(
    failed=lambda label: ServiceUnavailableError(f"simulated: the server failed at {label}"),
    lost=lambda label: CommitStateUnknownException(f"simulated: answer lost at {label}"),
    called_lost=lambda label: CommitFailedException(f"simulated: falsely lost at {label}"),
    refused=lambda kind, label, rng: rng.choice(_REFUSALS_OF.get(kind, _REFUSALS))(
        f"simulated: the server refused {label}"
    ),
)


@dataclass
class Registry:
    """
    What a catalog's database holds: pointers to metadata files, and namespaces.

    Attributes:
        past: Where each pointer stood before, as (when it was moved on in ms, location).
        on_jvm: Whether strangers are engines on the JVM: others may leave tables, whose times they
            ignore, that Iceberg cannot load there any more, with or without transactions.
    """

    storage: Storage
    pointers: dict[Identifier, str] = field(default_factory=dict)
    past: dict[Identifier, list[tuple[int, str]]] = field(default_factory=dict)
    uppers: dict[str, int] = field(default_factory=dict)
    """The upper in ms of each version of a log, as the last of its snapshots says; or 0."""
    namespaces: dict[Identifier, dict[str, str]] = field(default_factory=dict)
    on_jvm: bool = False
    restored: int = 0
    """How often somebody has put a pointer back: he has waited for all locks of before."""
    arriving: dict[str, TableMetadata] = field(default_factory=dict)
    """What tables become, by uuid, in a swap that moves several: the log comes first."""
    purged: set[str] = field(default_factory=set)
    """Uuids of tables that a purger has put aside."""
    refused: int = 0
    """How many swaps a server's rules of times have refused: it takes them later, perhaps."""
    on_commit: OnCommit = lambda _name, _old, _new: None
    on_rename: OnRename = lambda _old, _new: None
    on_drop: OnDrop = lambda _name, _metadata: None

    def metadata(self, name: Identifier) -> TableMetadata:
        """Give a table's newest metadata, without a step."""
        return self.metadata_at(self.pointers[name])

    def metadata_at(self, location: str) -> TableMetadata:
        """Give what a metadata file holds, without a step."""
        content = self.storage.files.get(location)
        if content is None:
            raise FileNotFoundError(location)
        assert not isinstance(content, bytes)
        return content

    def lagging(self, name: Identifier, since_ms: int | None = None) -> list[str]:
        """Give where a pointer stood at some time since replicas may lag, and stands."""
        since_ms = self.storage.world.now_ms - _LAG_MS if since_ms is None else since_ms
        return [
            *(location for moved_ms, location in self.past.get(name, ()) if moved_ms >= since_ms),
            self.pointers[name],
        ]

    def swap(self, name: Identifier, expected: str | None, location: str) -> None:
        """Move a pointer, if it stands where it is expected (None: nowhere)."""
        self.check(name, expected, location)
        old = self.metadata(name) if expected else None
        self.uppers[location] = _upper(self.metadata_at(location))
        if expected:
            self.past.setdefault(name, []).append((self.storage.world.now_ms, expected))
        self.pointers[name] = location
        self.on_commit(name, old, self.metadata(name))

    def check(self, name: Identifier, expected: str | None, location: str) -> None:
        """Refuse to move a pointer that stands elsewhere, or to what could not be loaded."""
        if self.pointers.get(name) != expected:
            if expected is None:
                raise TableAlreadyExistsError(f"simulated: {name} exists")
            raise CommitFailedException(f"simulated: {name} was updated by another process")
        if expected is None and str(self.metadata_at(location).table_uuid) in self.purged:
            # A drop is old here after a millisecond. In a lake it is after 24 hours, and no request
            # of before, such as this creation, is on its way for as long.
            raise TableAlreadyExistsError(f"simulated: {name} existed when this was sent")
        if self.on_jvm and self.storage.world.actor.stranger:
            old = self.metadata(name) if expected else None
            _refuse_what_java_cannot_load(old, self.metadata_at(location))


def _upper(metadata: TableMetadata) -> int:
    summaries = (each.summary.additional_properties for each in metadata.snapshots if each.summary)
    stored = (each.get("txns.upper", "0") for each in summaries)
    return max((int(each) for each in stored if each.isascii() and each.isdecimal()), default=0)


def _refuse_what_java_cannot_load(old: TableMetadata | None, new: TableMetadata) -> None:
    if why := java_rules.breaks(old, new):
        raise CommitFailedException(f"simulated: Iceberg would not build it: {why}")


class SimulatedCatalog(MetastoreCatalog):
    """What both catalogs share: loading, names and namespaces."""

    errors = _SWAP_ERRORS
    queues = False
    """Whether who uses it looks at rows before it moves the log (docs/spec.md 11.3)."""

    def __init__(self, registry: Registry, rights: Rights | None = None) -> None:
        super().__init__("simulated", warehouse="memory://lake")
        self.registry = registry
        self._rights = rights
        self._io = SimulatedFileIO(registry.storage, rights)

    def _step(
        self,
        kind: str,
        label: str,
        effect: Callable[[], T],
        older: Callable[[], T] | None = None,
    ) -> T:
        if self._rights and not self._rights.may_step(kind, label):
            raise ForbiddenError(f"simulated: no right to {kind} {label}")
        return self.registry.storage.world.io(kind, label, effect, self.errors, older=older)

    def _load_file_io(
        self, properties: dict[str, str] = EMPTY_DICT, location: str | None = None
    ) -> FileIO:
        del properties, location
        return self._io

    def _table(self, name: Identifier) -> Table:
        if name not in self.registry.pointers:
            raise NoSuchTableError(f"Table does not exist: {'.'.join(name)}")
        return self.table_at(name, self.registry.pointers[name])

    def table_at(self, name: Identifier, location: str) -> Table:
        """Give a table as a metadata file has it, without a step."""
        return Table(name, self.registry.metadata_at(location), location, self._io, self)

    def _older(self, name: Identifier) -> Callable[[], Table] | None:
        """
        Give what loads a table as a replica has it, if it may lag.

        Never as it was before its creation, or before it came under care: a table without a mark
        is what the catalog says.
        """
        world = self.registry.storage.world
        commits = name[0] == "txns"
        may = world.faults.settings.has(Switch.STALE_HEADS if commits else Switch.STALE_TABLES)
        if (
            not may
            or len(self.registry.past.get(name, ())) == 0
            or name not in self.registry.pointers
        ):
            return None
        rng = world.actor.fault_rng

        def older() -> Table:
            if name not in self.registry.pointers:
                return self._table(name)  # it has gone since: there is no such table
            cared = is_marked(self.registry.metadata(name))
            lagging = self.registry.lagging(name)
            kept = [at for at in lagging if is_marked(self.registry.metadata_at(at)) or not cared]
            return self.table_at(name, rng.choice(kept))

        return older

    # ------------------------------------------------------------ tables

    def _name(self, identifier: str | Identifier) -> Identifier:
        return folded(self.identifier_to_tuple(identifier))

    def load_table(self, identifier: str | Identifier) -> Table:
        name = self._name(identifier)
        return self._step("load", ".".join(name), lambda: self._table(name), self._older(name))

    def create_table(  # noqa: PLR0917 -- pyiceberg's
        self,
        identifier: str | Identifier,
        schema: Any,
        location: str | None = None,
        partition_spec: Any = UNPARTITIONED_PARTITION_SPEC,
        sort_order: Any = UNSORTED_SORT_ORDER,
        properties: dict[str, str] = EMPTY_DICT,
    ) -> Table:
        staged = self._create_staged_table(
            identifier, schema, location, partition_spec, sort_order, properties
        )
        name = self._name(identifier)
        self._create(name, staged.metadata, staged.metadata_location)
        return self.load_table(name)

    def _create(self, name: Identifier, metadata: TableMetadata, location: str) -> None:
        self.registry.storage.files[location] = metadata
        self._put(name, location)

    def _put(self, name: Identifier, location: str) -> None:
        """Let a name point to a metadata file for the first time."""

        def create() -> None:
            if name[:-1] not in self.registry.namespaces:
                raise NoSuchNamespaceError(f"Namespace does not exist: {name[:-1]}")
            self.registry.swap(name, None, location)

        self._step("create", ".".join(name), create)

    def drop_table(self, identifier: str | Identifier) -> None:
        name = self._name(identifier)

        def drop() -> None:
            if name not in self.registry.pointers:
                raise NoSuchTableError(f"Table does not exist: {'.'.join(name)}")
            metadata = self.registry.metadata(name)
            self.registry.on_drop(name, metadata)
            del self.registry.pointers[name]
            self.registry.past.pop(name, None)

        self._step("drop", ".".join(name), drop)

    def rename_table(
        self, from_identifier: str | Identifier, to_identifier: str | Identifier
    ) -> Table:
        self.move_table(self._name(from_identifier), self._name(to_identifier))
        return self.load_table(to_identifier)

    def move_table(self, old: Identifier, new: Identifier) -> None:
        """Give a table another name, and do not load it."""
        old, new = self._name(old), self._name(new)

        def rename() -> None:
            if old not in self.registry.pointers:
                raise NoSuchTableError(f"Table does not exist: {'.'.join(old)}")
            if new in self.registry.pointers:
                raise TableAlreadyExistsError(f"Table exists: {'.'.join(new)}")
            self.registry.pointers[new] = self.registry.pointers.pop(old)
            self.registry.past.pop(old, None)
            if _ASIDE in new[-1]:
                self.registry.purged.add(str(self.registry.metadata(new).table_uuid))
            if _ASIDE not in f"{old[-1]} {new[-1]}":
                self.registry.on_rename(old, new)

        self._step("rename", ".".join(old), rename)

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        levels = self.identifier_to_tuple(namespace)

        def names() -> list[Identifier]:
            if levels not in self.registry.namespaces:
                raise NoSuchNamespaceError(f"Namespace does not exist: {levels}")
            return [name for name in self.registry.pointers if name[:-1] == levels]

        return self._step("load", f"list {'.'.join(levels)}", names)

    # ------------------------------------------------------------ namespaces

    def create_namespace(
        self, namespace: str | Identifier, properties: dict[str, str] = EMPTY_DICT
    ) -> None:
        levels = self.identifier_to_tuple(namespace)

        def create() -> None:
            if levels in self.registry.namespaces:
                raise NamespaceAlreadyExistsError(f"Namespace exists: {levels}")
            self.registry.namespaces[levels] = dict(properties)

        self._step("create", f"namespace {'.'.join(levels)}", create)

    def drop_namespace(self, namespace: str | Identifier) -> None:
        self.registry.namespaces.pop(self.identifier_to_tuple(namespace), None)

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        levels = self.identifier_to_tuple(namespace) if namespace else ()
        return [one for one in self.registry.namespaces if one[:-1] == levels]

    def load_namespace_properties(self, namespace: str | Identifier) -> dict[str, str]:
        levels = self.identifier_to_tuple(namespace)
        if levels not in self.registry.namespaces:
            raise NoSuchNamespaceError(f"Namespace does not exist: {levels}")
        return self.registry.namespaces[levels]

    def update_namespace_properties(
        self,
        namespace: str | Identifier,
        removals: set[str] | None = None,
        updates: dict[str, str] = EMPTY_DICT,
    ) -> PropertiesUpdateSummary:
        raise NotImplementedError

    # ------------------------------------------------------------ not simulated

    def register_table(
        self,
        identifier: str | Identifier,
        metadata_location: str,
        overwrite: bool = False,  # noqa: FBT001, FBT002 -- pyiceberg's
    ) -> Table:
        del overwrite
        name = self._name(identifier)
        world = self.registry.storage.world

        def register() -> None:
            self.registry.metadata_at(metadata_location)
            self.registry.swap(name, None, metadata_location)

        world.io("create", ".".join(name), register, self.errors)
        return self.load_table(name)

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        del namespace
        return []

    def view_exists(self, identifier: str | Identifier) -> bool:
        del identifier
        return False

    def load_view(self, identifier: str | Identifier) -> Any:
        raise NoSuchViewError(f"View does not exist: {identifier}")

    def register_view(self, identifier: str | Identifier, metadata_location: str) -> Any:
        raise NotImplementedError

    def drop_view(self, identifier: str | Identifier) -> None:
        raise NoSuchViewError(f"View does not exist: {identifier}")


class SwapCatalog(SimulatedCatalog):
    """Load, validate, write a metadata file, move the pointer: each a step of its own."""

    errors = _SWAP_ERRORS

    def commit_table(
        self, table: Table, requirements: tuple[Any, ...], updates: tuple[Any, ...]
    ) -> CommitTableResponse:
        name = self._name(table.name())
        try:
            current: Table | None = self.load_table(name)
        except NoSuchTableError:
            current = None
        staged = self._update_and_stage_table(current, name, requirements, updates)
        self.refuse_what_python_cannot_write(staged.metadata)
        if current is None:
            self._create(name, staged.metadata, staged.metadata_location)
        elif staged.metadata == current.metadata:
            return _response(current)
        else:
            self.registry.storage.files[staged.metadata_location] = staged.metadata
            self.swap(name, current.metadata_location, staged.metadata_location)
        return _response(staged)

    def refuse_what_python_cannot_write(self, metadata: TableMetadata) -> None:
        """Do as pyiceberg; strangers are engines on the JVM, too."""
        if (
            metadata.format_version > WRITABLE_FORMAT
            and not self.registry.storage.world.actor.stranger
        ):
            raise NotImplementedError("Writing V3 is not yet supported")

    def look(self, names: list[Identifier]) -> dict[Identifier, str]:
        """Give where pointers stand, of those that there are: all of one moment."""
        pointers = self.registry.pointers
        known = {name: self._name(name) for name in names}
        return self._step(
            "load",
            "rows of " + ", ".join(".".join(name) for name in names),
            lambda: {name: pointers[key] for name, key in known.items() if key in pointers},
        )

    def swap_all(self, moves: list[tuple[Identifier, str | None, str]]) -> None:
        """Move pointers from where they are expected (None: nowhere), the log's first, or none."""
        named = [(self._name(name), expected, location) for name, expected, location in moves]
        named.sort(key=lambda move: move[0][0] != "txns")
        restored = self.registry.restored

        def swap() -> None:
            if self.registry.restored != restored:  # pointers may stand as they did, locks do not
                raise CommitFailedException("simulated: the database was restored")
            for name, expected, location in named:
                self.registry.check(name, expected, location)
            made = [self.registry.metadata_at(location) for _, _, location in named]
            self.registry.arriving = {str(each.table_uuid): each for each in made}
            for move in named:
                self.registry.swap(*move)
            self.registry.arriving = {}

        self._step("swap", ".".join(named[0][0]), swap)

    def swap(self, name: Identifier, expected: str | None, location: str) -> None:
        """Move a pointer from where it is expected (None: nowhere) to a metadata file."""
        name = self._name(name)
        if expected is None:
            self._put(name, location)
            return
        self._step("swap", ".".join(name), lambda: self.registry.swap(name, expected, location))


class ServerCatalog(SimulatedCatalog):
    """Everything in one step, against the newest metadata."""

    errors = _SERVER_ERRORS

    def commit_table(
        self, table: Table, requirements: tuple[Any, ...], updates: tuple[Any, ...]
    ) -> CommitTableResponse:
        return self.commit(table.name(), requirements, updates)

    def commit(
        self, name: Identifier, requirements: tuple[Any, ...], updates: tuple[Any, ...]
    ) -> CommitTableResponse:
        """Change a table by its name alone, as a request does."""
        name = self._name(name)

        def commit() -> CommitTableResponse:
            current = self._table(name) if name in self.registry.pointers else None
            try:
                fitted = tuple(with_known_references(current and current.metadata, updates))
                staged = self._update_and_stage_table(current, name, requirements, fitted)
            except CommitFailedException as error:
                raise self._lost(error) from error
            except ValueError as error:  # Iceberg's server: a validation that fails is a 400
                raise BadRequestError(f"ValidationException: {error}") from error
            world = self.registry.storage.world
            if server_rules.stamps_by_its_clock(world.seed):
                staged.metadata = server_rules.stamped(staged.metadata, world.now_ms)
            try:
                server_rules.check(current and current.metadata, staged.metadata)
            except BadRequestError:
                self.registry.refused += 1
                raise
            self.registry.storage.files[staged.metadata_location] = staged.metadata
            expected = current.metadata_location if current else None
            self.registry.swap(name, expected, staged.metadata_location)
            return _response(staged)

        return self._step("swap", ".".join(name), commit)

    def _update_and_stage_table(self, *given: Any) -> Any:
        """Stage as pyiceberg does that plays the server, but for code that a table names."""
        with mock.patch.object(pyiceberg.catalog, "load_location_provider", _servers_provider):
            return super()._update_and_stage_table(*given)

    def _lost(self, error: CommitFailedException) -> Exception:
        """Give what the server says of a swap that was lost."""
        world = self.registry.storage.world
        by_number = world.faults.settings.has(Switch.FALSE_REFUSALS)
        if by_number and world.current and world.actor.fault_rng.random() < _BY_NUMBER:
            return BadRequestError(
                "ValidationException: Cannot add snapshot with sequence number 1 older than last"
                " sequence number 2"
            )
        return error


def _servers_provider(location: str, properties: Mapping[str, str]) -> Any:
    """Give what says where a server writes metadata: that is its own to say."""
    own = {key: each for key, each in properties.items() if not key.endswith("provider.impl")}
    return load_location_provider(location, own)


def _response(table: Table | StagedTable) -> CommitTableResponse:
    return CommitTableResponse(metadata=table.metadata, metadata_location=table.metadata_location)
