"""As `node.py`, on a disk that does not sync the logs of topics while the file `stuck` is there."""

import asyncio
import sys
import threading
from pathlib import Path

import msgspec
import structlog
import uvloop

from goqueue.wire.kio_import import load_kio

load_kio()

from goqueue.model.config import Config  # noqa: E402
from goqueue.runtime import real_environment  # noqa: E402
from goqueue.runtime.disk import RealDisk, RealFile  # noqa: E402
from goqueue.server.server import running_node  # noqa: E402

LOOK_S = 0.02


class StuckDisk(RealDisk):
    def __init__(self, flag: Path) -> None:
        super().__init__()
        self.flag = flag

    def open(self, path: str) -> "StuckFile":
        return StuckFile(self, path)


class StuckFile(RealFile):
    __slots__ = ()

    def sync(self) -> None:
        assert isinstance(self._disk, StuckDisk)
        is_held = self.path.endswith(".log") and "/logs/__" not in self.path
        while is_held and self._disk.flag.exists():
            threading.Event().wait(LOOK_S)
        super().sync()


async def main(config: Config) -> None:
    disk = StuckDisk(Path(config.data_dir) / "stuck")
    async with running_node(config, msgspec.structs.replace(real_environment(), disk=disk)) as node:
        print(node.kafka, node.http, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    uvloop.run(main(msgspec.json.decode(sys.argv[1], type=Config)))
