"""A server in a process of its own, as `Server` in `server.py` starts it.

    python node.py CONFIG-AS-JSON

Prints the addresses of the Kafka and the HTTP listener, and ends in good order when its standard
input does: so it never outlives the tests that started it.
"""

import asyncio
import logging
import sys

import msgspec
import structlog
import uvloop

from goqueue.wire.kio_import import load_kio

load_kio()
sys.modules.setdefault("pydantic", None)  # type: ignore[arg-type] # as `goqueue server` does

from goqueue.model.config import Config  # noqa: E402
from goqueue.server.server import running_node  # noqa: E402


async def main(config: Config) -> None:
    async with running_node(config) as node:
        print(node.kafka, node.http, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    uvloop.run(main(msgspec.json.decode(sys.argv[1], type=Config)))
