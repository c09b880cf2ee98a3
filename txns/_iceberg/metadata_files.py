"""What pyiceberg's catalogs do not tell of a commit: whether they came as far as asking for it."""

from __future__ import annotations

import traceback

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.serializers import ToOutputFile

_WRITING = {
    MetastoreCatalog._write_metadata.__code__,  # noqa: SLF001 -- it is only looked for
    ToOutputFile.table_metadata.__code__,
}


def is_unwritten(error: BaseException) -> bool:
    """
    Whether an error of a commit came out of writing the new metadata file.

    Catalogs that write it themselves do so before they move the pointer, so nothing has been asked
    for. The frames that the error has come through tell: it has the same type as any other one. Of
    a server, which writes it, and where another error was raised of it, nothing is known.
    """
    return any(frame.f_code in _WRITING for frame, _ in traceback.walk_tb(error.__traceback__))
