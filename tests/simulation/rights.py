"""What a connection may change: a catalog and its storage refuse all else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.attempts import Identifier


@dataclass(frozen=True)
class Rights:
    """
    What somebody may write, who may read all.

    Attributes:
        tables: Those that he may commit to; he creates, renames and drops none.
        folders: Below which he may write and delete files.
    """

    tables: frozenset[Identifier]
    folders: tuple[str, ...]

    def may_step(self, kind: str, label: str) -> bool:
        """Whether a step of a catalog's client may be taken."""
        return kind == "load" or (kind == "swap" and tuple(label.split(".")) in self.tables)

    def may_write(self, location: str) -> bool:
        """Whether a file may be written or deleted."""
        return any(lies_below(location, folder) for folder in self.folders)


def lies_below(location: str, folder: str) -> bool:
    """Whether a path of the simulated storage, which knows no `..`, lies below a folder."""
    return location.startswith(f"{folder.rstrip('/')}/")
