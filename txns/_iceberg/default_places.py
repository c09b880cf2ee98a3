"""The folders in which a catalog puts new tables of a namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from pyiceberg.catalog import LOCATION, WAREHOUSE_LOCATION, Catalog, MetastoreCatalog
from pyiceberg.exceptions import BadRequestError, ForbiddenError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from txns._iceberg.places import own_folders, spellings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from txns._identifier import Identifier

_NOBODYS = UUID(int=0)
_ANY = Schema(NestedField(1, "id", LongType(), required=False))


def namespace_folders(catalog: Catalog, table: Identifier) -> Iterator[str]:
    """
    Give the folders in which libraries put a new table of a namespace, what costs nothing first.

    Several, since those that share a catalog go by rules of their own: by the namespace's
    `location` or by the warehouse, with its levels as folders in each other or as one.
    """
    namespace = table[:-1]
    metastore = isinstance(catalog, MetastoreCatalog)
    warehouse = catalog.properties.get(WAREHOUSE_LOCATION) if metastore else None
    if warehouse:
        yield from spellings(f"{warehouse}/{'/'.join(namespace)}", namespace)
    try:
        location = catalog.load_namespace_properties(namespace).get(LOCATION)
    except (NotImplementedError, BadRequestError, ForbiddenError):
        location = None  # it has none, or none that we may see
    if location:
        yield from spellings(str(location), namespace)
    if isinstance(catalog, MetastoreCatalog):
        name = Catalog.namespace_to_string(namespace)
        try:
            own = catalog._resolve_table_location(None, name, table[-1])  # noqa: SLF001 -- its rules
        except ValueError:  # neither the namespace nor the catalog has a place
            return
        yield from own_folders(own, namespace)


def planned_folders(catalog: Catalog, table: Identifier) -> Iterator[str]:
    """
    Give the folder in which a server would put a table that is to be created.

    Its rules are its own, and so it is asked to plan one: of a name that nobody has, since it plans
    none of a name that is taken, and another one tells the folder as well.
    """
    if not isinstance(catalog, MetastoreCatalog):
        unused = (*table[:-1], f"{table[-1]}_{uuid5(_NOBODYS, 'place').hex}")
        planned = catalog.create_table_transaction(unused, _ANY)
        yield from own_folders(planned.table_metadata.location, table[:-1])
