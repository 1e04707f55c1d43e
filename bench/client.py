"""What the benchmarks ask of a client, and the result of one of its runs."""

from collections.abc import Mapping

import msgspec

from bench.process import Failed

LIMIT_SECONDS = 900

Settings = Mapping[str, str]


class Run(msgspec.Struct, frozen=True):
    """One pass of a client over `messages` messages."""

    messages: int
    seconds: float
    cpu_user: float
    cpu_system: float
    cpu_main_thread: float

    @property
    def cpu_seconds(self) -> float:
        return self.cpu_user + self.cpu_system

    @property
    def busiest_thread(self) -> float:
        """Cores used by the busier half: the program's own thread, or the library's together."""
        return max(self.cpu_main_thread, self.cpu_seconds - self.cpu_main_thread) / self.seconds


class Client:
    """What the parts ask of a client; `topic` settings are named as Kafka names them."""

    name = "?"

    def create(self, broker: str, topic: str, partitions: int, settings: Settings) -> Run:
        raise Failed(f"{self.name} cannot create topics")

    def delete(self, broker: str, topic: str) -> None:
        raise Failed(f"{self.name} cannot delete topics")

    def produce(
        self,
        broker: str,
        topic: str,
        *,
        partitions: int,
        messages: int,
        size: int,
        settings: Settings,
    ) -> Run:
        raise NotImplementedError

    def consume(self, broker: str, topic: str, *, partitions: int, messages: int, size: int) -> Run:
        raise NotImplementedError
