"""Names of tables: as they are typed, as people read them, and as catalogs may confuse them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Identifier = tuple[str, ...]
"""The parts of a name, the namespace's first."""


def dotted_name(table: Sequence[str] | str) -> str:
    """
    Give a table's name as people read it and the archive stores it.

    Parts are joined by dots; a part that has a dot or a backtick stands in backticks.
    """
    if isinstance(table, str):
        return table
    return ".".join(_part(part) for part in table)


def _part(part: str) -> str:
    return "`" + part.replace("`", "``") + "`" if "." in part or "`" in part else part


def parts_of(name: str | Identifier) -> Identifier:
    """
    Give the parts of a name as it is typed.

    Blanks about those of its namespace are none of it: pyiceberg's SQL catalog takes them away, and
    Iceberg's does not, which has to find what an entry names.
    """
    *namespace, last = name if isinstance(name, tuple) else name.split(".")
    return (*(part.strip() for part in namespace), last)


def namespace_of(name: str | Identifier) -> Identifier:
    """Give the levels of a namespace as it is typed; see `parts_of`."""
    *levels, last = parts_of(name)
    return (*levels, last.strip())


def folded(name: Identifier) -> str:
    """
    Give what two names have in common that some catalogs take for one.

    That is `T` and `t`, and what SQL catalogs join; in others the two clash for once.
    """
    return ".".join(name).lower()
