"""A network on which both sides show a certificate of one authority: that of a cluster's nodes.

Names are not compared: nodes have addresses of all kinds, and whoever has a certificate of this
authority is a node.  What a node may say about itself is proved with the shared secret as before.
"""

import asyncio
import ssl
from collections.abc import Callable

from goqueue.model.errors import InvalidSetting
from goqueue.runtime.environment import Listener, Network
from goqueue.runtime.tls_listener import Handshakes

Connect = Callable[[], asyncio.BaseProtocol]


class MutualTlsNetwork:
    def __init__(self, network: Network, ca_file: str, cert_file: str, key_file: str) -> None:
        """The files are read when the first connection needs them."""
        self._network = network
        self._files = ca_file, cert_file, key_file
        self._contexts: tuple[ssl.SSLContext, ssl.SSLContext] | None = None

    @property
    def files(self) -> tuple[str, str, str]:
        """Authorities, certificate, key."""
        return self._files

    def reload(self) -> None:
        """Read the files again, for connections from now on; those that are open stay.

        Blocking.  Raises `InvalidSetting`, and nothing has changed then.  An authority that is no
        longer in its file is trusted until the node is started again.
        """
        if self._contexts is None:
            return
        node_contexts(*self._files)
        ca_file, cert_file, key_file = self._files
        for context in self._contexts:
            context.load_cert_chain(cert_file, key_file or None, password=_refuse_password)
            context.load_verify_locations(ca_file)

    async def listen(
        self,
        host: str,
        port: int,
        connection: Connect,
        tls: ssl.SSLContext | None = None,
        handshakes: Handshakes | None = None,
    ) -> Listener:
        assert tls is None, "the network has its own"
        server, _ = await self._load()
        return await self._network.listen(host, port, connection, server, handshakes)

    async def connect(
        self, host: str, port: int, connection: Connect, tls: ssl.SSLContext | None = None
    ) -> None:
        assert tls is None, "the network has its own"
        _, client = await self._load()
        await self._network.connect(host, port, connection, client)

    async def _load(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """Of the side that listens, and of the other; raises `InvalidSetting`."""
        if self._contexts is None:
            self._contexts = await asyncio.to_thread(node_contexts, *self._files)
        return self._contexts


def node_contexts(
    ca_file: str, cert_file: str, key_file: str
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    for context in (server, client):
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_cert_chain(cert_file, key_file or None, password=_refuse_password)
        except (OSError, ValueError) as error:
            raise InvalidSetting(
                f"cluster.cert_file, cluster.key_file: {cert_file}: {error}"
            ) from error
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ValueError) as error:
            raise InvalidSetting(f"cluster.ca_file: {ca_file}: {error}") from error
    return server, client


def _refuse_password() -> str:
    raise ValueError("the key has a password: give one without")
