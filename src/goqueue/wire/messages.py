"""Requests and responses as objects: one shape a message, whatever the version on the wire.

    bytes, version --decode_request-->  newest shape  --> handler
    bytes, version <--encode_response-- newest shape  <-- handler

A shape is kio's class of the newest version (`kio.schema.metadata.v13.request.MetadataRequest`,
say), or the one in `shapes` where that cannot serve for all versions: `request_shape` and
`response_shape` tell.
A field that a client's version does not have holds the protocol's default; what a client's version
cannot say of a response is left out.  Which fields moved, and how, is in `upgrades`.

Produce and Fetch have codecs of their own, in `produce` and `fetch`.

Schema modules are imported when a message of that version first comes: that one takes some
milliseconds, the next ones microseconds.
"""

import importlib
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from typing import Any, TypeVar, cast

from kio.static.primitive import TZAware, i32Timedelta

from goqueue.model.errors import UnsupportedVersion
from goqueue.wire import shapes, upgrades
from goqueue.wire.apis import VERSIONS, ApiKey, versions_of
from goqueue.wire.codec import (
    EPOCH,
    MILLISECOND,
    counted_entries,
    defaults_of,
    entity_reader,
    entity_writer,
)
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.primitives import DECODE_ERRORS, Buffer

T = TypeVar("T")


def decode_request(api_key: int, version: int, body: Buffer) -> Any:
    """The request, in the newest shape; raises `MalformedRequest` or `UnsupportedVersion`.

    Bytes after its end are ignored, as Kafka does.
    """
    decode = _request_decoder(api_key, version)
    try:
        with counted_entries():
            return decode(bytes(body))
    except DECODE_ERRORS as error:
        name = ApiKey(api_key).name.lower()
        raise MalformedRequest(f"{name} v{version}: {error}") from error


def encode_response(api_key: int, version: int, response: Any) -> bytes:
    """The body of a response given in the newest shape, as this version has it."""
    return _response_encoder(api_key, version)(response)


def build(cls: type[T], /, **fields: Any) -> T:
    """An object of a schema class; fields that are not given have the protocol's default.

    kio types its fields narrowly (`i32`, `TopicName`), so that strict type checking would ask for a
    conversion around every number.  This takes plain values, and saves naming what is empty:

    >>> from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse
    >>> coordinator = build(Coordinator, key="workers", node_id=1, host="127.0.0.1", port=9092)
    >>> response = build(FindCoordinatorResponse, coordinators=(coordinator,))
    >>> response.throttle_time, response.coordinators[0].error_code.name
    (datetime.timedelta(0), 'none')

    A field that the class does not have is a `TypeError`.  Numbers are checked when encoded.
    """
    return cls(**(defaults_of(cls) | fields))


def milliseconds(duration: timedelta) -> int:
    """A duration field's value as the protocol has it."""
    return duration // MILLISECOND


def duration(milliseconds: int) -> i32Timedelta:
    """A value for a duration field."""
    return cast(i32Timedelta, timedelta(milliseconds=milliseconds))


def moment(timestamp_ms: int) -> TZAware:
    """A value for a time field, from wall-clock milliseconds since 1970."""
    return cast(TZAware, EPOCH + timedelta(milliseconds=timestamp_ms))


def timestamp_ms(moment: datetime) -> int:
    """A time field's value, as wall-clock milliseconds since 1970."""
    return (moment - EPOCH) // MILLISECOND


# --- which class ------------------------------------------------------------------------------


def request_shape(api_key: ApiKey) -> type[Any]:
    """The class handlers get this API's requests in."""
    own: type[Any] | None = getattr(shapes, f"{_class_name(api_key)}Request", None)
    return own or request_class(api_key, VERSIONS[api_key].max)


def response_shape(api_key: ApiKey) -> type[Any]:
    """The class handlers give this API's responses in."""
    own: type[Any] | None = getattr(shapes, f"{_class_name(api_key)}Response", None)
    return own or response_class(api_key, VERSIONS[api_key].max)


def request_class(api_key: ApiKey, version: int) -> type[Any]:
    """kio's class for one version of a request."""
    return _kio_class(api_key, version, "request")


def response_class(api_key: ApiKey, version: int) -> type[Any]:
    """kio's class for one version of a response."""
    return _kio_class(api_key, version, "response")


def _kio_class(api_key: ApiKey, version: int, kind: str) -> type[Any]:
    module = importlib.import_module(f"kio.schema.{api_key.name.lower()}.v{version}.{kind}")
    found: type[Any] = getattr(module, _class_name(api_key) + kind.title())
    return found


def _class_name(api_key: ApiKey) -> str:
    return api_key.name.title().replace("_", "")


# --- codecs, compiled when first needed ---------------------------------------------------------


@cache
def _request_decoder(api_key: int, version: int) -> Callable[[bytes], Any]:
    api = _check_served(api_key, version)
    layout, shape = request_class(api, version), request_shape(api)
    moved = upgrades.REQUESTS.get(api)
    if moved is None or version > moved.last_version:
        read = entity_reader(layout, shape)
        return lambda body: read(body, 0)[0]
    read, move = entity_reader(layout, layout), moved.move
    return lambda body: move(read(body, 0)[0], shape)


@cache
def _response_encoder(api_key: int, version: int) -> Callable[[Any], bytes]:
    api = _check_served(api_key, version)
    layout, shape = response_class(api, version), response_shape(api)
    moved = upgrades.RESPONSES.get(api)
    if moved is None or version > moved.last_version:
        write, move = entity_writer(layout, shape), None
    else:
        write, move = entity_writer(layout, layout), moved.move

    def encode(response: Any) -> bytes:
        out = bytearray()
        write(out, response if move is None else move(response, layout))
        return bytes(out)

    return encode


def _check_served(api_key: int, version: int) -> ApiKey:
    versions = versions_of(api_key)
    if versions is None:
        raise UnsupportedVersion(f"API {api_key} is not known")
    api = ApiKey(api_key)
    if version not in versions:
        raise UnsupportedVersion(
            f"{api.name.lower()} v{version} is not served: {versions.min} to {versions.max} are"
        )
    return api
