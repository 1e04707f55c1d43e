"""The setting `cluster.quorum`: where the nodes keep the log that they agree on.

local                                   in this node's data directory
etcd://a:2379,b:2379,c:2379             etcd, keys below `goqueue/`
etcds://a:2379,b:2379/queues/prod       the same over TLS, keys below `queues/prod/`
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from goqueue.model.errors import InvalidSetting

LOCAL: Final = "local"
ETCD_PORT: Final = 2379
PREFIX: Final = "goqueue"
SCHEMES: Final = {"etcd": "http", "etcds": "https"}
_PREFIX: Final = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
_ENDPOINT: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?")


class EtcdQuorum(msgspec.Struct, frozen=True):
    endpoints: Sequence[str]  # URLs
    prefix: str  # of all keys


def parse_quorum(text: str) -> EtcdQuorum | None:
    """None for the local one; raises `InvalidSetting`."""
    if text == LOCAL:
        return None
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in SCHEMES:
        raise InvalidSetting(f"{text!r}: write local, or etcd://HOST:PORT,HOST:PORT")
    hosts, _, path = rest.partition("/")
    prefix = path.strip("/") or PREFIX
    if not _PREFIX.fullmatch(prefix):
        raise InvalidSetting(
            f"{prefix!r} is no prefix of keys: letters, digits, '.', '_', '-', '/'"
        )
    return EtcdQuorum([_url(scheme, host) for host in hosts.split(",")], prefix)


def _url(scheme: str, host: str) -> str:
    found = _ENDPOINT.fullmatch(host)
    if found is None or int((found[2] or ":0")[1:]) > 65535:
        raise InvalidSetting(f"{host!r} is not an address: write HOST:PORT")
    return f"{SCHEMES[scheme]}://{found[1]}{found[2] or f':{ETCD_PORT}'}"
