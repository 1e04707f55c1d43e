"""Who may call: by which name of the server, from which page, through which proxy.

    Host        DNS rebinding: a page on evil.example whose name is pointed at 127.0.0.1 is of the
                same origin, as its browser sees it.  So only names that are ours are answered.
    Origin      A page of another origin must not use its reader's browser against us, unless
                `http.cors_origins` lists it.  Only top-level links from elsewhere are followed.
    proxies     `X-Forwarded-*` counts from `http.trusted_proxies`, and from nobody else.

A browser tells where a request comes from: `Sec-Fetch-Site` to https and to loopback, `Origin`
with writes and with requests by CORS.  A GET that changes something must not come from a browser
that told neither (`refuse_unproven_browser`).
"""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from litestar.connection import ASGIConnection
from litestar.exceptions import HTTPException
from litestar.handlers.base import BaseRouteHandler

from goqueue.api.errors import Problem
from goqueue.model.config import HttpConfig, is_loopback, parse_address
from goqueue.server.http.asgi_types import Scope

HEALTH_PATHS: Final = frozenset({"/health", "/healthz", "/livez", "/readyz"})
PREFIX_KEY: Final = "goqueue.prefix"  # in the scope: what a proxy puts before our paths
PREFLIGHT_SECONDS: Final = 600  # how long a browser may remember what it was allowed
HOSTS_REMEMBERED_MAX: Final = 256  # of those that were found to be ours; each has at most 261 bytes
EXPOSED_HEADERS: Final = b"location, retry-after, idempotency-replayed, x-goqueue-served-by"

_HOST: Final = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::(\d{1,5}))?")
_PREFIX: Final = re.compile(r"(/[A-Za-z0-9._~-]+)+")

Headers = Mapping[bytes, bytes]  # of a request, the last one of each name
Refusal = tuple[int, Problem]


class Access:
    """What the settings say about names, origins and proxies."""

    def __init__(self, config: HttpConfig) -> None:
        listened = parse_address(config.listen).host.lower()
        self._is_on_loopback = is_loopback(listened)
        advertised = parse_address(config.advertised).host if config.advertised else ""
        names = {listened, advertised.lower(), *(name.lower() for name in config.hosts)}
        self._names = {name.strip("[]").rstrip(".") for name in names} - {""}
        self._suffixes = tuple(name[1:] for name in self._names if name.startswith("*."))
        self._origins = {origin.lower().encode() for origin in config.cors_origins}
        self._prefix = config.root_path
        self._proxies = [ipaddress.ip_network(text) for text in config.trusted_proxies]
        self._hosts: set[bytes] = set()  # headers that were found to be ours

    # --- proxies ----------------------------------------------------------------------------------

    def resolve(self, scope: Scope, headers: dict[bytes, bytes]) -> Refusal | None:
        """Put what the client asked for into scope and headers, as a trusted proxy tells it.

        Both names are checked, the proxy's for us and the client's for the proxy: a page that was
        rebound to us may send any header to its own origin.
        """
        refusal = self._refused_host(scope, headers)
        if refusal is not None:
            return refusal
        scope[PREFIX_KEY] = self._prefix
        if self._proxies and self._is_proxy(scope["client"]):
            self._name_client(scope)
            refusal = self._forward(scope, headers)
        if scope[PREFIX_KEY]:
            scope["path"] = _without_prefix(scope["path"], scope[PREFIX_KEY])
        return refusal

    def _is_proxy(self, client: tuple[str, int] | None) -> bool:
        try:
            address = ipaddress.ip_address(client[0] if client else "")
        except ValueError:
            return False
        return any(address in network for network in self._proxies)

    def _name_client(self, scope: Scope) -> None:
        """The last address of `X-Forwarded-For` that is none of the proxies: what stands before it
        anybody may have written."""
        given = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
        for text in reversed(b",".join(given).decode("latin-1").split(",")):
            address = _address(text.strip())
            if address is None:
                return
            scope["client"] = str(address), 0
            if not self._is_proxy(scope["client"]):
                return

    def _forward(self, scope: Scope, headers: dict[bytes, bytes]) -> Refusal | None:
        if proto := _first(headers.get(b"x-forwarded-proto")):
            scope["scheme"] = "https" if proto == "https" else "http"
        prefix = _first(headers.get(b"x-forwarded-prefix")).rstrip("/")
        if _PREFIX.fullmatch(prefix):
            scope[PREFIX_KEY] = prefix
        host = _first(headers.get(b"x-forwarded-host"))
        if not host:
            return None
        others = [each for each in scope["headers"] if each[0] != b"host"]
        headers[b"host"] = host.encode("latin-1")
        scope["headers"] = [*others, (b"host", headers[b"host"])]
        return self._refused_name(scope, headers[b"host"])

    # --- names ------------------------------------------------------------------------------------

    def _refused_host(self, scope: Scope, headers: Headers) -> Refusal | None:
        host = headers.get(b"host")
        has_repeated = len(headers) < len(scope["headers"])
        if host in self._hosts and not has_repeated:
            return None
        if not host:
            if scope["http_version"] == "1.0" and host is None:
                return None
            return 400, Problem("invalid_host", "a request has a Host header (RFC 9112, 3.2)")
        if has_repeated and sum(name == b"host" for name, _ in scope["headers"]) > 1:
            return 400, Problem("invalid_host", "a request has one Host header, not several")
        return self._refused_name(scope, host)

    def _refused_name(self, scope: Scope, header: bytes) -> Refusal | None:
        host = header.decode("latin-1")
        found = _HOST.fullmatch(host.lower())
        if found is None or int(found[2] or 0) > 65535:
            return 400, Problem("invalid_host", f"{host[:60]!r} is not a host: write NAME:PORT")
        name = found[1].strip("[]").rstrip(".")
        if self._is_ours(name):
            self._remember_host(header)
            return None
        if scope["path"] in HEALTH_PATHS:
            return None
        text = (
            f"this server does not answer to the name {name[:100]!r}: add it to the setting"
            " http.hosts, or use the server's address"
        )
        return 421, Problem("unknown_host", text)

    def _remember_host(self, header: bytes) -> None:
        if len(self._hosts) >= HOSTS_REMEMBERED_MAX:
            self._hosts.clear()
        self._hosts.add(header)

    def _is_ours(self, name: str) -> bool:
        if name in self._names or name.endswith(self._suffixes):
            return True
        address = _address(name)
        if name == "localhost" or name.endswith(".localhost"):
            return True
        if self._is_on_loopback:
            return address is not None and address.is_loopback
        # Rebinding takes a name that its owner can point anywhere: no address is one, and no
        # public name is without a dot.
        return address is not None or "." not in name

    # --- origins ----------------------------------------------------------------------------------

    def refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> Refusal | None:
        """Why the request is not answered, if so; `headers` are those of the scope."""
        refusal = self.resolve(scope, headers)
        if refusal is not None or scope["path"] in HEALTH_PATHS:
            return refusal
        origin = headers.get(b"origin")
        if origin is not None:
            is_own = origin.lower().partition(b"://")[2] == headers.get(b"host", b"").lower()
            if is_own or self.allows(origin):
                return None
            return 403, Problem("foreign_origin", _foreign_text(origin.decode("latin-1")))
        is_elsewhere = headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site")
        if is_elsewhere and not (scope["method"] == "GET" and _is_link(headers)):
            return 403, Problem("foreign_origin", _foreign_text("another origin"))
        return None

    def allows(self, origin: bytes | None) -> bool:
        return origin is not None and origin.lower() in self._origins

    def cors_headers(self, headers: Headers) -> Sequence[tuple[bytes, bytes]]:
        """What lets a page of a listed origin read the answer."""
        if not self._origins:
            return ()
        origin = headers.get(b"origin")
        if not self.allows(origin):
            return [(b"vary", b"origin")]
        assert origin is not None
        return [
            (b"vary", b"origin"),
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", EXPOSED_HEADERS),
        ]

    def preflight_headers(self, headers: Headers, methods: bytes) -> list[tuple[bytes, bytes]]:
        """What a browser asks before it sends what a plain page could not."""
        if not self.allows(headers.get(b"origin")):
            return []
        found = [
            (b"access-control-allow-methods", methods),
            (b"access-control-max-age", str(PREFLIGHT_SECONDS).encode()),
        ]
        if asked := headers.get(b"access-control-request-headers"):
            found.append((b"access-control-allow-headers", asked))
        if headers.get(b"access-control-request-private-network") == b"true":
            found.append((b"access-control-allow-private-network", b"true"))
        return found


async def refuse_unproven_browser(
    connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler
) -> None:
    """For a GET that changes something: a browser must have told where it comes from.

    Foreign pages were refused before, except for links.  Requests without `Origin` and
    `Sec-Fetch-Site` are left: browsers send them to plain-HTTP addresses other than loopback, and
    old ones to all.  `X-Requested-With` cannot be sent across origins without being allowed to.
    """
    headers = connection.headers
    if "origin" in headers or "x-requested-with" in headers:
        return
    is_browser = headers.get("user-agent", "").startswith("Mozilla/")
    site = headers.get("sec-fetch-site", "cross-site" if is_browser else "none")
    if site in ("cross-site", "same-site"):
        raise HTTPException(
            status_code=403,
            detail="this changes something: a browser sends Origin or X-Requested-With with it",
        )


def base_url(scope: Mapping[str, Any]) -> str:
    """The address that the client used, without a slash at its end."""
    host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
    if not host:  # HTTP/1.0
        address, port = scope["server"]
        host = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    return f"{scope['scheme']}://{host}{scope.get(PREFIX_KEY, '')}"


def _without_prefix(path: str, prefix: str) -> str:
    """As it is, where the proxy has taken the prefix away already."""
    if prefix and (path == prefix or path.startswith(prefix + "/")):
        return path[len(prefix) :] or "/"
    return path


def _is_link(headers: Headers) -> bool:
    """Somebody follows a link into a tab of its own."""
    return (
        headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )


def _foreign_text(origin: str) -> str:
    return (
        f"a page of {origin[:100]} made a browser send this: list the origin in the setting"
        " http.cors_origins to allow it, or http.trusted_proxies if the page is this server's own"
        " behind a proxy"
    )


def _first(value: bytes | None) -> str:
    """Of a list with commas, what the outermost proxy was asked for."""
    return (value or b"").decode("latin-1").partition(",")[0].strip()


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
