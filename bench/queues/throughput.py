"""As many messages as can be: published, received and acked at the same time, all durable."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.process import Failed
from bench.queues.crew import Figures, Options, measured, started
from bench.queues.doors import Door, HttpDoor, KafkaDoor, prepare
from bench.queues.peers import Missing, Nats, Peer, RabbitMq, UnsyncedNats

DOORS: dict[str, type[Door]] = {"kafka": KafkaDoor, "http": HttpDoor}
PEERS: dict[str, type[Peer]] = {
    "rabbitmq": RabbitMq,
    "nats": Nats,
    "nats-unsynced": UnsyncedNats,
}
BROKERS = [*DOORS, *PEERS]


def run(
    names: Sequence[str],
    directory: Path,
    goqueue: str,
    options: Options,
    tell: Callable[[str], None],
) -> list[Figures]:
    """Of each broker that can be had; one after the other, each on a directory of its own."""
    found: list[Figures] = []
    for name in names:
        place = directory / name
        try:
            if name in DOORS:
                found.append(of_door(DOORS[name], place, goqueue, options))
            else:
                found.append(PEERS[name](place).measured(options))
        except Missing as problem:
            tell(f"{name} left out: {problem}")
        except Failed as problem:
            tell(f"[red]{name} failed:[/] {problem}")
        finally:
            shutil.rmtree(place, ignore_errors=True)
    return found


def of_door(kind: type[Door], directory: Path, goqueue: str, options: Options) -> Figures:
    broker = started(directory, goqueue)
    try:
        durability = options.delivery_durability
        prepare(broker, options.partitions, delivery_durability=durability)
        return measured(kind(broker, options.partitions), options)
    finally:
        broker.stop()
