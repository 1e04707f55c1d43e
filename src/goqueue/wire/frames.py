"""The envelope of requests and responses.

    request    i32 size | i16 api_key | i16 api_version | i32 correlation_id
               | nullable string client_id | [tagged fields, when flexible] | body
    response   i32 size | i32 correlation_id
               | [tagged fields, when flexible; never for ApiVersions] | body

`client_id` keeps its legacy encoding in flexible versions too.  A frame, here, is what follows the
size.
"""

import struct
from typing import Final

import msgspec

from goqueue.wire.apis import is_flexible
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.primitives import DECODE_ERRORS, Buffer, end_of, is_null, skip_tagged_fields

_REQUEST_HEADER: Final = struct.Struct(">hhih")
_RESPONSE_HEADER: Final = struct.Struct(">ii")
_CORRELATION_ID_BYTES = 4


class RequestHeader(msgspec.Struct, frozen=True, gc=False):
    """Who asks what, and the bytes of the request."""

    api_key: int  # may be an API or a version that nobody serves: that is the listener's to refuse
    api_version: int
    correlation_id: int
    client_id: str | None
    flexible: bool
    body: memoryview  # a slice of the frame, writable if that is


def parse_header(frame: memoryview) -> RequestHeader:
    """The header of a frame; raises `MalformedRequest`.

    An unknown API or version is no error here, since the answer to it needs the correlation id.
    """
    try:
        return _parse_header(frame)
    except DECODE_ERRORS as error:
        raise MalformedRequest(f"request header: {error}") from error


def _parse_header(frame: memoryview) -> RequestHeader:
    api_key, api_version, correlation_id, size = _REQUEST_HEADER.unpack_from(frame, 0)
    at = _REQUEST_HEADER.size
    client_id = None
    if not is_null(size):
        end = end_of(frame, at, size)
        client_id = str(frame[at:end], "utf-8")
        at = end
    flexible = is_flexible(api_key, api_version)
    if flexible:
        at = skip_tagged_fields(frame, at)
    return RequestHeader(api_key, api_version, correlation_id, client_id, flexible, frame[at:])


def encode_frame(correlation_id: int, flexible: bool, parts: list[Buffer]) -> list[Buffer]:
    """A response ready to be written: its size and header, then `parts` as they are.

    `flexible` is `has_flexible_response_header(api_key, version)`.
    """
    size = _CORRELATION_ID_BYTES + flexible + sum(map(len, parts))
    head = _RESPONSE_HEADER.pack(size, correlation_id)
    return [head + b"\x00" if flexible else head, *parts]
