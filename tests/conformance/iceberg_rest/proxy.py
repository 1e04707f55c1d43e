"""Stands before a REST catalog and kills it in the middle of commits."""

import contextlib
import http.client
import threading
from collections import deque
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import urlsplit

Blow = Literal["before", "after"]  # the catalog has the commit, or not; the client gets no answer
LEFT_OUT = ("connection", "transfer-encoding", "content-length", "host")
ANSWER_S = 60.0


class CommitProxy(ThreadingHTTPServer):
    """Everything passes, but for commits that a blow is meant for, in turn."""

    daemon_threads = True

    def __init__(self, target: str, kill_and_start: Callable[[], None]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.target = urlsplit(target).netloc
        self.blows: deque[Blow] = deque()
        self.struck: list[Blow] = []
        self._kill_and_start = kill_and_start
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @contextlib.contextmanager
    def running(self) -> Iterator["CommitProxy"]:
        thread = threading.Thread(target=self.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            self.server_close()

    def next_blow(self, path: str) -> Blow | None:
        with self._lock:
            is_commit = "/tables/" in path
            return self.blows.popleft() if is_commit and self.blows else None

    def strike(self, blow: Blow) -> None:
        self._kill_and_start()
        self.struck.append(blow)


class Handler(BaseHTTPRequestHandler):
    server: CommitProxy  # type: ignore[mutable-override]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._pass_on()

    def do_HEAD(self) -> None:
        self._pass_on()

    def do_POST(self) -> None:
        blow = self.server.next_blow(self.path)
        if blow is None:
            self._pass_on()
            return
        body = self._read()
        if blow == "after":
            self._ask(body)
        self.server.strike(blow)
        self.close_connection = True  # without an answer

    def _pass_on(self) -> None:
        status, headers, data = self._ask(self._read())
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in LEFT_OUT:
                self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self.server.target, timeout=ANSWER_S)
        sent = {name: value for name, value in self.headers.items() if name.lower() not in LEFT_OUT}
        try:
            connection.request(self.command, self.path, body or None, sent)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def _read(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def log_message(self, *_: Any) -> None:
        pass
