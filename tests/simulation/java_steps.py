"""
Takes the steps of Java's core in the world: its catalog, its files, its waiting.

The catalogs are the ones that Python's core has, below what is Java's own: its clients of them.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TooManyRequestsError,
    UnauthorizedError,
)
from pyiceberg.table import CommitTableRequest, TableIdentifier
from pyiceberg.table.metadata import TableMetadataUtil

from tests.simulation.storage import ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table.metadata import TableMetadata

    from tests.simulation.catalogs import Identifier, SimulatedCatalog
    from tests.simulation.scheduler import World

_TYPES: dict[type[Exception], str] = {
    ConnectionError: "Lost",
    CommitStateUnknownException: "Lost",
    CommitFailedException: "CommitFailed",
    FileExistsError: "AlreadyExists",
    TableAlreadyExistsError: "AlreadyExists",
    NamespaceAlreadyExistsError: "AlreadyExists",
    NoSuchTableError: "NoSuchTable",
    NoSuchNamespaceError: "NoSuchNamespace",
    FileNotFoundError: "FileNotFound",
    ServiceUnavailableError: "ServiceUnavailable",
    BadRequestError: "BadRequest",
    UnauthorizedError: "Unauthorized",
    ForbiddenError: "Forbidden",
    TooManyRequestsError: "TooManyRequests",
    OSError: "IO",
}
"""What Java calls the errors of a step; the first that fits."""


def type_of(error: Exception) -> str:
    """Give Java's word for what a step has raised; what is not one is the simulation's fault."""
    for kind, name in _TYPES.items():
        if isinstance(error, kind):
            return name
    raise error


class Steps:
    """The steps of one process: its client of the catalog, and the storage that all share."""

    def __init__(
        self, world: World, catalog: SimulatedCatalog, changes: Callable[[], dict[str, int]]
    ) -> None:
        """
        Take them in a world, over a client of a catalog.

        Args:
            world: Where.
            catalog: The client.
            changes: How often threads of the process have made way for others.
        """
        self._world = world
        self._catalog = catalog
        self._changes = changes
        self._storage = catalog.registry.storage
        self._takes: dict[str, Callable[[dict[str, Any]], Any]] = {
            "sleep": self._sleep,
            "stand-by": self._stand_by,
            "read": self._read,
            "exists": self._exists,
            "write": self._write,
            "delete": self._delete,
            "load": lambda line: _loaded(catalog.load_table(_name(line))),
            "swap": self._swap,
            "rows": self._rows,
            "swap-all": self._swap_all,
            "commit": self._commit,
            "drop": lambda line: catalog.drop_table(_name(line)),
            "rename": lambda line: catalog.move_table(_name(line), tuple(line["to"])),
            "list": lambda line: catalog.list_tables(tuple(line["namespace"])),
            "namespace": self._namespace,
            "namespaces": self._namespaces,
            "create-namespace": lambda line: catalog.create_namespace(tuple(line["namespace"])),
        }

    def take(self, line: dict[str, Any]) -> Any:
        """Take a step; what it raises is what Java is told."""
        return self._takes[line["step"]](line)

    def _sleep(self, line: dict[str, Any]) -> None:
        self._world.pause(1 + self._world.random_bytes(1)[0] % line["max_ms"])

    def _stand_by(self, line: dict[str, Any]) -> None:
        kind, seen = line["for"], line["changes"]
        self._world.wait_for(lambda: self._changes()[kind] > seen[kind])

    def _read(self, line: dict[str, Any]) -> str:
        at = line["location"]
        content = self._world.io("read", at, lambda: self._storage.bytes_of(at), ERRORS)
        return base64.b64encode(content).decode()

    def _exists(self, line: dict[str, Any]) -> bool:
        at = line["location"]
        return self._world.io("read", at, lambda: self._storage.holds(at), ERRORS)

    def _write(self, line: dict[str, Any]) -> None:
        at, content = line["location"], base64.b64decode(line["content"])
        kept: bytes | TableMetadata = content
        if at.endswith(".metadata.json"):
            kept = TableMetadataUtil.parse_raw(content.decode())
        self._world.io("write", at, lambda: self._storage.files.__setitem__(at, kept), ERRORS)

    def _delete(self, line: dict[str, Any]) -> None:
        at = line["location"]
        self._world.io("delete", at, lambda: self._storage.delete(at), ERRORS)

    def _swap(self, line: dict[str, Any]) -> None:
        self._catalog.swap(_name(line), line["expected"], line["location"])

    def _rows(self, line: dict[str, Any]) -> list[str | None]:
        names = [tuple(name) for name in line["tables"]]
        located = self._catalog.look(names)
        return [located.get(name) for name in names]

    def _swap_all(self, line: dict[str, Any]) -> None:
        moves = [(_name(move), move["expected"], move["location"]) for move in line["moves"]]
        self._catalog.swap_all(moves)

    def _commit(self, line: dict[str, Any]) -> dict[str, str]:
        name = _name(line)
        request = CommitTableRequest.model_validate(
            {**line["request"], "identifier": TableIdentifier(namespace=name[:-1], name=name[-1])}
        )
        response = self._catalog.commit(name, request.requirements, request.updates)
        return _loaded(response)

    def _namespace(self, line: dict[str, Any]) -> dict[str, str] | None:
        namespace = tuple(line["namespace"])
        known = self._catalog.registry.namespaces
        return self._world.io("load", ".".join(namespace), lambda: known.get(namespace), ERRORS)

    def _namespaces(self, line: dict[str, Any]) -> list[Identifier]:
        above = tuple(line["namespace"])
        catalog = self._catalog
        return self._world.io(
            "load", f"below {'.'.join(above)}", lambda: catalog.list_namespaces(above), ERRORS
        )


def _name(line: dict[str, Any]) -> Identifier:
    return tuple(line["table"])


def _loaded(table: Any) -> dict[str, str]:
    """Give what a load gives, and a commit: pyiceberg's objects for both have the same names."""
    return {"location": table.metadata_location, "metadata": table.metadata.model_dump_json()}
