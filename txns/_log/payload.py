"""
Payloads of entries: the `CommitTransactionRequest` of the Iceberg REST specification.

Docs/spec.md 4.5. Inline up to 64 KiB, in a file beside the commit table's metadata above.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pyiceberg.table import CommitTableRequest

from txns._log import limits, payload_shape
from txns._log.entry import Payload
from txns._log.permitted import way_out
from txns.errors import CorruptLog, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.io import FileIO

    from txns._log.entry import Entry

INLINE_MAX_BYTES = 64 * 1024
_CACHED_ENTRIES = 128
_CACHED_BYTES = 16 * 1024 * 1024
"""
How much JSON is kept parsed, which takes many times as much; the newest payload is kept whatever
it has. Whoever may write the log alone would fill everybody's memory.
"""

_PIECE_BYTES = 4 * 1024 * 1024

_NAME = re.compile(r"txns-payload-[0-9a-f]+-[0-9a-f]+(-[0-9]+)?\.json", re.ASCII)
_ACTIONS_UNKNOWN_TO_PYICEBERG = {"add-encryption-key", "remove-encryption-key"}


class Payloads:
    """Reads and writes payloads; keeps the requests of the last entries that were asked for."""

    def __init__(self) -> None:
        # By payload, not by transaction: each attempt of one has another payload.
        self._known: OrderedDict[Payload, tuple[tuple[CommitTableRequest, ...], int]]
        self._known = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def requests(self, entry: Entry, io: FileIO, location: str) -> tuple[CommitTableRequest, ...]:
        """
        Give the requests of an entry, one per change that it carries, in their order.

        Args:
            entry: Of the log.
            io: The commit table's files.
            location: The commit table's.

        Raises:
            CorruptLog: The payload is not what the entry says, or lies elsewhere.
            Unsupported: It holds updates that pyiceberg does not know.
        """
        known = self._known.get(entry.payload)
        if known is None:
            try:
                _check_place(entry.payload, location)
                stored = read(entry.payload, io)
                known = parse(entry, stored), len(stored)
            except CorruptLog as error:
                raise CorruptLog(f"{error}; {way_out(entry.commit_ts)}") from error
            self._keep(entry.payload, known)
        return known[0]

    def _keep(self, payload: Payload, known: tuple[tuple[CommitTableRequest, ...], int]) -> None:
        with self._lock:
            _, before = self._known.pop(payload, ((), 0))
            self._known[payload] = known
            self._bytes += known[1] - before
            while len(self._known) > _CACHED_ENTRIES or (
                self._bytes > _CACHED_BYTES and len(self._known) > 1
            ):
                _, (_, left) = self._known.popitem(last=False)
                self._bytes -= left


def dump(requests: Sequence[CommitTableRequest]) -> str:
    """Give the JSON of a payload."""
    changes = ",".join(request.model_dump_json() for request in requests)
    return '{"table-changes":[' + changes + "]}"


def check_readable(request: CommitTableRequest) -> None:
    """
    Hold what a writer is to log against what readers take: libraries write more than that.

    Raises:
        InvalidUsage: 54000, it is above a limit.
        ValueError: Saying where.
    """
    text = dump([request])
    limits.check_payload(text)
    payload_shape.check(limits.parsed(text))


def placed(location: str, txn_id: str, text: str) -> Payload:
    """
    Say where the specification wants a payload: inline, or in a file that is to be written.

    Args:
        location: Of the commit table.
        txn_id: The transaction's, from which the file's name is made.
        text: The JSON.
    """
    stored = text.encode()
    if len(stored) <= INLINE_MAX_BYTES:
        return Payload(inline=text)
    sha256 = hashlib.sha256(stored).hexdigest()
    return Payload(location=f"{_folder(location)}/{file_name(txn_id, sha256)}", sha256=sha256)


def write(io: FileIO, location: str, text: str, at_work: Callable[[], None]) -> None:
    """Write the file of a payload; a slow storage takes its time, and others may wait meanwhile."""
    stored = text.encode()
    with io.new_output(location).create(overwrite=True) as stream:
        for start in range(0, len(stored), _PIECE_BYTES):
            at_work()
            stream.write(stored[start : start + _PIECE_BYTES])
    at_work()


def file_name(txn_id: str, sha256: str) -> str:
    """Give the name of a payload's file: ids are longer than names of files may be."""
    return f"txns-payload-{hashlib.sha256(txn_id.encode()).hexdigest()[:32]}-{sha256[:8]}.json"


def is_at_its_place(path: str, location: str) -> bool:
    """Whether a path is one of a commit table's payloads; nobody reads or removes others."""
    folder, _, name = path.rpartition("/")
    return folder == _folder(location) and _NAME.fullmatch(name) is not None


def _folder(location: str) -> str:
    """Give the folder of payloads; Java's libraries take slashes from a location's end."""
    return f"{location.rstrip('/')}/metadata"


def _check_place(payload: Payload, location: str) -> None:
    if payload.location is not None and not is_at_its_place(payload.location, location):
        raise CorruptLog(
            "a payload's file lies where no writer of the protocol puts it, and is not read (was"
            " the commit table's location changed? set it back past the protocol);"
            f" location=`{payload.location}` folder=`{_folder(location)}`"
        )


def again(location: str, number: int) -> str:
    """Give another name to the file of a payload whose bytes are written once more."""
    return f"{location.removesuffix('.json')}-{number}.json"


def read(payload: Payload, io: FileIO) -> bytes:
    """
    Give a payload's bytes.

    Raises:
        CorruptLog: The file's digest is not the entry's, or it is too large.
    """
    if payload.location is None:
        # What is no UTF-8 is refused where it is parsed.
        return (payload.inline or "").encode(errors="surrogatepass")
    with io.new_input(payload.location).open() as stream:
        stored = stream.read(limits.PAYLOAD_MAX_BYTES + 1)
    if len(stored) > limits.PAYLOAD_MAX_BYTES:
        raise CorruptLog(
            f"a payload has at most {limits.PAYLOAD_MAX_BYTES} bytes; location=`{payload.location}`"
        )
    found = hashlib.sha256(stored).hexdigest()
    if found != payload.sha256:
        raise CorruptLog(
            "a payload file is not what its entry says;"
            f" location=`{payload.location}` sha256=`{found}` expected=`{payload.sha256}`"
        )
    return stored


def parse(entry: Entry, stored: bytes) -> tuple[CommitTableRequest, ...]:
    """
    Decode a payload.

    Raises:
        CorruptLog: It is not a `CommitTransactionRequest` with one element per carried change.
        Unsupported: It holds updates that pyiceberg would drop.
    """
    try:
        said = limits.parsed(stored)
        payload_shape.check(said)
        elements = said["table-changes"]
        for element in elements:
            _refuse_what_would_be_lost(element)
        requests = tuple(CommitTableRequest.model_validate(element) for element in elements)
    except (ValueError, KeyError, TypeError, AttributeError, ValidationError) as error:
        raise CorruptLog(
            f"an entry's payload cannot be read; txn=`{entry.txn_id}`: {error}"
        ) from error
    if len(requests) != len(entry.carried):
        raise CorruptLog(
            f"an entry's payload does not have one request per change; txn=`{entry.txn_id}`"
        )
    return requests


def _refuse_what_would_be_lost(element: dict[str, Any]) -> None:
    for update in element.get("updates", ()):
        action = update.get("action")
        encrypted = update.get("snapshot", {}).get("key-id") is not None
        if action in _ACTIONS_UNKNOWN_TO_PYICEBERG or encrypted:
            raise Unsupported(
                f"pyiceberg does not know an update of the log: use Spark; action=`{action}`"
                + (" key-id" if encrypted else "")
            )
