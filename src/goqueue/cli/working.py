"""`goqueue queue work`: a command for each message.

Each of the workers takes a message, runs the command with the message's value on its standard
input, and asks for more time while it runs.  It acks when the command ends with 0, nacks with what
went wrong otherwise.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import Final

from goqueue.client import AsyncClient, Delivery
from goqueue.client.errors import ClientError, NoAnswer, Overloaded, Refused, ServerUnreachable

WAIT_MS: Final = 10_000
AGAIN_SECONDS: Final = 1.0  # after the server did not answer
RECONNECT_TIMEOUT_SECONDS: Final = 60.0  # without a server
ERROR_LENGTH_MAX: Final = 500


class Worker:
    def __init__(
        self,
        topic: str,
        group: str,
        consumer: str,
        command: list[str],
        *,
        workers: int,
        visibility_ms: int | None,
        limit: int | None,
        until_empty: bool,
        tell: Callable[[str], None],
    ) -> None:
        self._topic = topic
        self._group = group
        self._consumer = consumer
        self._command = command
        self._workers = workers
        self._visibility_ms = visibility_ms
        self._left = limit
        self._wait_ms = 0 if until_empty else WAIT_MS
        self._until_empty = until_empty
        self._tell = tell
        self._stopping = asyncio.Event()
        self.acked = 0
        self.failed = 0

    async def run(self, connect: Callable[[], AsyncClient]) -> None:
        """Until there is nothing more to do, or ctrl-c."""
        async with connect() as client:
            if self._visibility_ms is None:
                settings = await client.queue_settings(self._group)
                self._visibility_ms = int(settings["visibility_ms"])
            with self._handle_interrupts():
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(self._workers):
                        tasks.create_task(self._work(client))

    @contextlib.contextmanager
    def _handle_interrupts(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        kinds = (signal.SIGINT, signal.SIGTERM)
        for kind in kinds:
            loop.add_signal_handler(kind, self._stopping.set)
        try:
            yield
        finally:
            for kind in kinds:
                loop.remove_signal_handler(kind)

    async def _work(self, client: AsyncClient) -> None:
        while not self._stopping.is_set() and self._left != 0:
            if self._left is not None:
                self._left -= 1
            delivery = await self._next(client)
            if delivery is None:
                if self._left is not None:
                    self._left += 1
                if self._until_empty or self._stopping.is_set():
                    return
            else:
                await self._serve(client, delivery)

    # --- taking -----------------------------------------------------------------------------------

    async def _next(self, client: AsyncClient) -> Delivery | None:
        """A message; None when none came.  When interrupted, the wait ends at once."""
        async with asyncio.TaskGroup() as tasks:
            receiving = tasks.create_task(self._receive(client))
            stopping = tasks.create_task(self._stopping.wait())
            await asyncio.wait((receiving, stopping), return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if not receiving.done():
                receiving.cancel()  # the server takes back what it was about to give
        return None if receiving.cancelled() else receiving.result()

    async def _receive(self, client: AsyncClient) -> Delivery | None:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + RECONNECT_TIMEOUT_SECONDS
        while True:
            try:
                found = await client.receive(
                    self._topic,
                    self._group,
                    consumer=self._consumer,
                    max_messages=1,
                    wait_ms=self._wait_ms,
                    visibility_ms=self._visibility_ms,
                )
                return found[0] if found else None
            except (ServerUnreachable, NoAnswer, Overloaded) as error:
                if loop.time() > give_up_at:
                    raise
                self._tell(f"{error}; trying again")
            await asyncio.sleep(AGAIN_SECONDS)

    # --- serving ----------------------------------------------------------------------------------

    async def _serve(self, client: AsyncClient, delivery: Delivery) -> None:
        name = f"{delivery.topic}/{delivery.partition}/{delivery.offset}"
        async with asyncio.TaskGroup() as tasks:
            keeping = tasks.create_task(self._keep(client, delivery))
            try:
                problem = await self._run_command(delivery)
            finally:
                keeping.cancel()
        try:
            if problem is None:
                await client.ack(delivery)
                self.acked += 1
                self._tell(f"{name}: done")
                return
            self.failed += 1
            (settled,) = await client.nack(delivery, reason=problem)
        except Refused as error:
            self._tell(f"{name}: {error}")
            return
        then = "is a dead letter now" if settled.action == "dead" else "will be redelivered"
        self._tell(f"{name}: attempt {delivery.attempt} failed ({problem}), {then}")

    async def _keep(self, client: AsyncClient, delivery: Delivery) -> None:
        """Ask for more time, well before it is over."""
        assert self._visibility_ms is not None
        while True:
            await asyncio.sleep(self._visibility_ms / 3000)
            try:
                await client.extend(delivery, visibility_ms=self._visibility_ms)
            except Refused:
                return  # it is somebody else's now; the ack will say so
            except ClientError as error:
                self._tell(f"{error}; trying again")

    async def _run_command(self, delivery: Delivery) -> str | None:
        """None when it went well, else what went wrong."""
        options = {
            "stdin": asyncio.subprocess.PIPE,
            "stderr": asyncio.subprocess.PIPE,
            "env": {**os.environ, **variables(delivery)},
            "start_new_session": True,  # ctrl-c is for us: let it end
        }
        try:
            if len(self._command) == 1:
                process = await asyncio.create_subprocess_shell(self._command[0], **options)  # type: ignore[arg-type]
            else:
                process = await asyncio.create_subprocess_exec(*self._command, **options)  # type: ignore[arg-type]
        except (OSError, ValueError) as error:
            return str(error)
        _, said = await process.communicate(delivery.value or b"")
        if process.returncode == 0:
            return None
        text = said.decode(errors="replace").strip()[-ERROR_LENGTH_MAX:]
        return f"exit {process.returncode}" + (f": {text}" if text else "")


def variables(delivery: Delivery) -> dict[str, str]:
    """What a command is told about its message."""
    found = {
        "GOQUEUE_TOPIC": delivery.topic,
        "GOQUEUE_PARTITION": str(delivery.partition),
        "GOQUEUE_OFFSET": str(delivery.offset),
        "GOQUEUE_ATTEMPT": str(delivery.attempt),
        "GOQUEUE_FAILURES": str(delivery.failures),
        "GOQUEUE_TIMEOUTS": str(delivery.timeouts),
        "GOQUEUE_PRIORITY": delivery.priority,
        "GOQUEUE_KEY": _text(delivery.key),
    }
    for name, value in delivery.headers:
        plain = "".join(each if each.isascii() and each.isalnum() else "_" for each in name)
        found[f"GOQUEUE_HEADER_{plain}"] = _text(value)
    return found


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="replace").replace("\0", "")
