"""HTTP in front of a REST catalog, which refuses a write that lands all the same, or does not."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

_REFUSAL = {"error": {"message": "the token has expired", "type": "Forbidden", "code": 403}}


class RefusingProxy:
    """
    A server on loopback that passes on what is said to a REST catalog.

    Attributes:
        uri: Where it answers.
    """

    def __init__(self, uri: str) -> None:
        self._catalog = uri
        self._refused: str | None = None
        self._lands = False
        self._on_its_way: tuple[str, bytes] | None = None
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                status, body = proxy.answer(self.command, self.path, self.rfile.read(length))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_HEAD = do_DELETE = do_GET  # noqa: N815  (as http.server looks for them)

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def refuse_next(self, table: str, *, lands: bool) -> None:
        """Refuse the next write of a table; it lands, perhaps, when it was looked at once more."""
        self._refused, self._lands = f"/tables/{table}", lands

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Give the status and the body for a request."""
        if method == "POST" and self._refused and path.endswith(self._refused):
            self._refused = None
            self._on_its_way = (path, body) if self._lands else None
            return 403, json.dumps(_REFUSAL).encode()
        answer = self._asked(method, path, body)
        if method == "GET" and self._on_its_way and path.startswith(self._on_its_way[0]):
            late, self._on_its_way = self._on_its_way, None
            assert self._asked("POST", *late)[0] == 200
        return answer

    def _asked(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        request = urllib.request.Request(
            self._catalog + path,
            data=body or None,
            method=method,
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
