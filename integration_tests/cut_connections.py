"""
TCP in front of a PostgreSQL server that cuts connections where the outcome of a write hangs.

It reads PostgreSQL's protocol as far as it has to: which message makes a write durable. That is a
COMMIT behind an UPDATE, as psycopg2 sends it, and JDBC, or an UPDATE outside of a transaction, as
JDBC does.

Source: "Frontend/Backend Protocol", in PostgreSQL's documentation.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_LATE_S = 1.0
_SYNC = b"S\0\0\0\4"
_STARTUP = 196608  # version 3.0 of the protocol; other first messages ask for encryption


class Cut(Enum):
    """What becomes of a message that makes a write durable; its client gets no answer to it."""

    ANSWER = auto()
    """It arrives, and its answer does not."""
    MESSAGE = auto()
    """It does not arrive."""
    LATE = auto()
    """It arrives when the client has long given up, and has asked again."""


class Proxy:
    """
    A server on loopback that passes on what is said to PostgreSQL's socket.

    Attributes:
        port: Where it listens.
        draw: Says for each message that makes a write durable what becomes of it; None: it passes.
        only: What an update has in it that is looked at at all.
        cuts: What it has cut so far.
        refuses: Whether new connections are refused, and those that there are cut as soon as they
            say something: a client has several, and asks by another one.
    """

    def __init__(self, path: Path) -> None:
        self.draw: Callable[[], Cut | None] = lambda: None
        self.only = b""
        self.cuts: list[Cut] = []
        self.refuses = False
        self._path = path
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _listen(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, suppress(OSError):
            if self.refuses:
                return
            server.connect(str(self._path))
            _Connection(self, client, server).run()


class _Connection:
    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._muted = threading.Event()
        self._answered = threading.Event()
        self._statements: dict[bytes, bytes] = {}
        """Texts of prepared statements, by their names."""
        self._in_transaction = False
        self._has_updated = False
        self._commits = False

    def run(self) -> None:
        threading.Thread(target=self._pass_answers, daemon=True).start()
        try:
            for message in _messages(self._client):
                self._server.sendall(message) if self._passes(message) else None
                if self._muted.is_set():
                    return
        finally:
            _close(self._client)
            _close(self._server)

    def _pass_answers(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(65536):
                if self._muted.is_set():
                    self._answered.set()
                else:
                    self._client.sendall(data)
        _close(self._client)

    def _passes(self, message: bytes) -> bool:
        """Whether a message is passed on as it is; else it has been seen to."""
        if self._proxy.refuses:
            self._muted.set()
            return False
        if not self._decides(message):
            return True
        cut = self._proxy.draw()
        if cut is None:
            return True
        self._proxy.cuts.append(cut)
        self._muted.set()
        if cut is not Cut.ANSWER:
            _close(self._client)
        if cut is Cut.LATE:
            time.sleep(_LATE_S)
        if cut is not Cut.MESSAGE:
            # It is answered when it has to be.
            self._server.sendall(message + (_SYNC if message[:1] == b"E" else b""))
            self._answered.wait(10)
        return False

    def _decides(self, message: bytes) -> bool:
        """Whether a message makes an update durable; learns what has been said before it."""
        kind, body = message[:1], message[5:]
        if kind == b"Q":
            return self._decides_simply(body.lstrip().upper())
        if kind == b"P":
            name, text = body.split(b"\0")[:2]
            self._statements[name] = text.lstrip().upper()
        if kind == b"B":
            self._is_bound(self._statements.get(body.split(b"\0")[1], b""), body)
        # A COMMIT is done when it is executed, an UPDATE alone when that is over.
        decides = kind == b"E" if self._commits else kind == b"S" and not self._in_transaction
        if decides and self._has_updated:
            self._in_transaction = self._has_updated = self._commits = False
            return True
        return False

    def _is_bound(self, text: bytes, values: bytes) -> None:
        self._commits = text.startswith(b"COMMIT")
        if text.startswith((b"BEGIN", b"ROLLBACK")):
            self._in_transaction, self._has_updated = text.startswith(b"BEGIN"), False
        if text.startswith(b"UPDATE"):
            self._has_updated |= self._is_looked_at(values)

    def _is_looked_at(self, update: bytes) -> bool:
        return self._proxy.only.upper() in update.upper()

    def _decides_simply(self, text: bytes) -> bool:
        if text.startswith(b"BEGIN"):
            self._in_transaction, self._has_updated = True, False
        self._has_updated |= b"UPDATE ICEBERG_TABLES" in text and self._is_looked_at(text)
        if text.startswith((b"COMMIT", b"ROLLBACK")):
            decides = self._has_updated and text.startswith(b"COMMIT")
            self._in_transaction = self._has_updated = False
            return decides
        return False


def _messages(client: socket.socket) -> Iterator[bytes]:
    """Give what a client says, message by message; the first ones have no letter."""
    started = False
    while True:
        head = _read(client, 5 if started else 4)
        (length,) = struct.unpack("!i", head[-4:])
        body = _read(client, length - 4)
        yield head + body
        started = started or struct.unpack("!i", body[:4]) == (_STARTUP,)


def _read(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        if not (more := client.recv(count - len(data))):
            raise ConnectionResetError
        data += more
    return data


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
