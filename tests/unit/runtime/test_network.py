"""The real network: listeners on loopback."""

import asyncio

from goqueue.runtime.network import RealNetwork


async def test_a_closed_listener_still_knows_its_address():
    """Connections are answered until they end, also those that ask where to connect to."""
    listener = await RealNetwork().listen("127.0.0.1", 0, asyncio.Protocol)
    address = listener.address
    await listener.close()
    assert listener.address == address
