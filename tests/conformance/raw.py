"""Any request in any version, over a plain socket: for what no client library sends."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from goqueue.wire.apis import VERSIONS, ApiKey, has_flexible_response_header, is_flexible
from goqueue.wire.client_codec import entity_of
from goqueue.wire.codec import entity_reader, entity_writer
from goqueue.wire.messages import request_class, response_class
from goqueue.wire.primitives import INT16, INT32, nullable_string, skip_tagged_fields

WAIT_S = 60.0


class RawClient:
    """One connection; one question at a time."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=WAIT_S)
        self._stream = self._socket.makefile("rb")
        self._asked = 0

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def ask(self, api: ApiKey, version: int | None = None, /, **fields: Any) -> Any:
        """The answer, as kio's class of that version (the newest we know, unless told).

        Fields are plain values, lists and dicts; those not given have the protocol's default.
        """
        spoken = VERSIONS[api].max if version is None else version
        self._asked += 1
        frame = bytearray(INT16.pack(api) + INT16.pack(spoken) + INT32.pack(self._asked))
        frame += nullable_string("raw", flexible=False)
        if is_flexible(api, spoken):
            frame += b"\x00"
        layout = request_class(api, spoken)
        entity_writer(layout, layout)(frame, entity_of(layout, fields))
        self._socket.sendall(INT32.pack(len(frame)) + frame)
        return self._answer(api, spoken)

    def _answer(self, api: ApiKey, version: int) -> Any:
        (size,) = INT32.unpack(self._stream.read(INT32.size))
        answer = self._stream.read(size)
        assert INT32.unpack_from(answer)[0] == self._asked
        at = INT32.size
        if has_flexible_response_header(api, version):
            at = skip_tagged_fields(memoryview(answer), at)
        layout = response_class(api, version)
        return entity_reader(layout, layout)(answer, at)[0]


@contextmanager
def raw_client(address: tuple[str, int]) -> Iterator[RawClient]:
    client = RawClient(*address)
    try:
        yield client
    finally:
        client.close()
