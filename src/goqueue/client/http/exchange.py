"""What both clients do with a request and its answer, apart from waiting for it."""

import contextlib
import ipaddress
from collections.abc import Iterator
from typing import Any, Final, NoReturn, TypeVar, cast
from urllib.parse import urlsplit

import httpx
import msgspec

from goqueue._version import __version__
from goqueue.api.errors import Problem
from goqueue.client.errors import (
    BadAnswer,
    BadLogin,
    ClientError,
    NoAnswer,
    Refused,
    ServerUnreachable,
    refusal,
)
from goqueue.client.http.calls.call import Call
from goqueue.client.http.login import Login, authorization, verification

T = TypeVar("T")
DEFAULT_URL: Final = "http://localhost:8080"
TIMEOUT_SECONDS: Final = 30.0
LONG_POLL_MS: Final = 10_000
SNIPPET_BYTES: Final = 200


class ErrorBody(msgspec.Struct, frozen=True):
    error: Problem


def options(base_url: str, login: Login) -> dict[str, Any]:
    """How to set up httpx for this server."""
    headers = {"User-Agent": f"goqueue/{__version__}", "Accept": "application/json"}
    return {
        "base_url": base_url,
        "headers": headers | authorization(login),
        # A proxy cannot reach this machine's own loopback.
        "trust_env": not is_loopback(base_url),
        "verify": verification(base_url, login),
    }


def is_loopback(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def request_of(call: Call[T], base_url: str, timeout: float) -> dict[str, Any]:
    """The arguments of httpx's `request`."""
    arguments: dict[str, Any] = {
        "method": call.method,
        "url": base_url + call.path,
        "timeout": timeout,
    }
    if call.query:
        arguments["params"] = call.query
    if call.body is not None:
        arguments["content"] = call.body
        arguments["headers"] = {"Content-Type": "application/json"}
    return arguments


def result_of(call: Call[T], response: httpx.Response) -> T:
    """What the answer says; raises `Refused` or `BadAnswer`."""
    if not response.is_success and response.status_code not in call.also_answers:
        raise _build_error(response)
    if call.result is str:  # plain text, as it is
        return cast(T, response.text)
    try:
        found: Any = msgspec.json.decode(response.content, type=call.result)
    except msgspec.DecodeError as error:
        raise BadAnswer(
            f"{response.request.url} did not answer as GoQueue does: {error};"
            f" it said {_snippet(response)!r}"
        ) from error
    result: T = found if call.read is None else call.read(found)
    return result


def _build_error(response: httpx.Response) -> ClientError:
    try:
        said = msgspec.json.decode(response.content, type=ErrorBody).error
    except msgspec.DecodeError:
        return BadAnswer(
            f"{response.request.url} answered {response.status_code} {response.reason_phrase},"
            f" and not as GoQueue does: {_snippet(response)!r}"
        )
    kind: type[Refused] = refusal(said.code, response.status_code)
    return kind(
        said.message,
        code=said.code,
        status=response.status_code,
        details=said.details,
        retry_after_seconds=_retry_after(response),
    )


def _retry_after(response: httpx.Response) -> float | None:
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None


def _snippet(response: httpx.Response) -> str:
    return response.content[:SNIPPET_BYTES].decode(errors="replace")


@contextlib.contextmanager
def named_errors(base_url: str, timeout: float) -> Iterator[None]:
    """Give httpx's errors their names here."""
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        _raise_from(error, base_url, timeout)


def _raise_from(error: Exception, base_url: str, timeout: float) -> NoReturn:
    match error:
        case httpx.ConnectTimeout():
            raise ServerUnreachable(
                f"no answer from {base_url} within {timeout:.3g} s: is the address right?"
            ) from error
        case httpx.ConnectError() if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise BadLogin(
                f"{base_url} shows a certificate that is not trusted here: name the authority that"
                f" signed it (ca_file), and the server as its certificate does ({_reason(error)})"
            ) from error
        case httpx.ConnectError() if "[SSL" in str(error):
            raise ServerUnreachable(
                f"no TLS with {base_url}: does it speak https? ({_reason(error)})"
            ) from error
        case httpx.ConnectError():
            raise ServerUnreachable(
                f"no GoQueue server at {base_url}: is it running, and is the address right?"
                f" ({_reason(error)})"
            ) from error
        case httpx.TimeoutException():
            raise NoAnswer(
                f"{base_url} took the request and did not answer within {timeout:.3g} s"
            ) from error
        case httpx.InvalidURL() | httpx.UnsupportedProtocol() | ValueError():
            raise ServerUnreachable(
                f"{base_url!r} is not the address of a server: write http://HOST:PORT"
            ) from error
        case httpx.RemoteProtocolError() if base_url.startswith("http:"):
            raise NoAnswer(
                f"the connection to {base_url} broke: {_reason(error)} If that is a server with"
                " TLS, its address begins with https:"
            ) from error
        case _:
            raise NoAnswer(f"the connection to {base_url} broke: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
