"""A backup of a simulated lake: what its catalog and its storage held, and what the model knew."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table.metadata import TableMetadata

    from tests.simulation.attempts import Identifier
    from tests.simulation.observer import Observer

_OF_OBSERVER = ("entries", "standing", "under", "stood", "off", "on_ts")
_SHARED = {"attempts"}
"""What the history goes on with, whatever is restored: nobody unlearns what was tried."""


@dataclass(frozen=True)
class Model:
    """What the model knew at a moment."""

    of_history: dict[str, Any]
    of_observer: dict[str, Any]
    purged: set[str]

    @staticmethod
    def of(observer: Observer) -> Model:
        """Keep what an observer knows."""
        history = vars(observer.history)
        return Model(
            {name: _copied(value) for name, value in history.items() if name not in _SHARED},
            {name: _copied(getattr(observer, name)) for name in _OF_OBSERVER},
            set(observer.checks.purged),
        )

    def restore(self, observer: Observer) -> None:
        """Let an observer know that again, and nothing since."""
        vars(observer.history).update({k: _copied(each) for k, each in self.of_history.items()})
        vars(observer).update({k: _copied(each) for k, each in self.of_observer.items()})
        observer.checks.purged = set(self.purged)


@dataclass(frozen=True)
class Backup:
    """
    A backup, as docs/operations.md has it: catalog and storage of one moment.

    Attributes:
        pointers: Where each table stood.
        files: What storage held.
        purged: Uuids of tables that purgers had put aside.
        model: What the model knew.
    """

    pointers: dict[Identifier, str]
    files: dict[str, bytes | TableMetadata]
    purged: set[str]
    model: Model

    @staticmethod
    def of(observer: Observer) -> Backup:
        """Take one."""
        registry = observer.registry
        return Backup(
            dict(registry.pointers),
            dict(registry.storage.files),
            set(registry.purged),
            Model.of(observer),
        )

    def restore(self, observer: Observer, names: Iterable[Identifier] | None = None) -> None:
        """
        Put tables back where they stood, all where none is named; files that are gone come back.

        What was written since stays in storage, where nothing leads to it.
        """
        registry = observer.registry
        if names is None:
            names = {*registry.pointers, *self.pointers}
            registry.purged = set(self.purged)
        for name in sorted(names):
            set_back(observer, name, self.pointers.get(name))
        for path, content in self.files.items():
            if path not in registry.storage.files:
                registry.storage.files[path] = content


def set_back(observer: Observer, name: Identifier, location: str | None) -> None:
    """Let a name point to a metadata file, or to none, as nobody who writes a table does."""
    registry = observer.registry
    registry.restored += 1
    now = registry.pointers.pop(name, None)
    if now is not None:
        registry.past.setdefault(name, []).append((observer.world.now_ms, now))
    if location is not None:
        registry.pointers[name] = location


def _copied(value: Any) -> Any:
    """Copy a container with the containers in it; what they hold does not change."""
    if isinstance(value, dict):
        return {key: copy.copy(each) for key, each in value.items()}
    return copy.copy(value)
