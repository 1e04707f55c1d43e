"""Which nodes `goqueue server --nodes N` runs: where their data is, and where they listen.

    node   data         kafka            http             cluster
    1      DATA_DIR/1   127.0.0.1:9092   127.0.0.1:8080   127.0.0.1:7000   keeps the metadata
    2      DATA_DIR/2   127.0.0.1:9093   127.0.0.1:8081   127.0.0.1:7001   follows node 1

Data that a single broker wrote stays where it is: DATA_DIR itself is then the directory of node 1.
"""

import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from goqueue.cli.failures import UsageFailure
from goqueue.cli.nodes import NODES_MAX
from goqueue.model.config import Address, Config, parse_address
from goqueue.model.quorum import LOCAL

CLUSTER_LISTEN: Final = "127.0.0.1:7000"
PORT_MAX: Final = 65535
DATA: Final = ("node.meta", "logs")  # what a data directory has: either is enough

TakePort = Callable[[str], int]


class NodePlan(msgspec.Struct, frozen=True):
    node_id: int
    settings: dict[str, str]
    """By dotted path, as text. They override what the command line says."""

    @property
    def data_dir(self) -> str:
        return self.settings["data_dir"]


def plan_nodes(config: Config, count: int, take_port: TakePort) -> list[NodePlan]:
    """`config` is that of the command line; `take_port` gives a free port of a host.

    Raises `UsageFailure` when the nodes cannot run side by side.
    """
    _check(config, count)
    listeners = {
        "kafka.listen": config.kafka.listen,
        "http.listen": config.http.listen,
        "cluster.listen": config.cluster.listen or CLUSTER_LISTEN,
    }
    advertised = {
        "kafka.advertised": config.kafka.advertised,
        "http.advertised": config.http.advertised,
        "cluster.advertised": config.cluster.advertised,
    }
    directories = _directories(Path(config.data_dir), count)
    plans: list[NodePlan] = []
    for index, directory in enumerate(directories):
        addresses = {name: _shift(name, text, index) for name, text in listeners.items()}
        settings = {name: _listen(each, take_port) for name, each in addresses.items()}
        for name, text in advertised.items():
            if text:
                settings[name] = str(_shift(name, text, index))
        settings["node_id"] = str(index + 1)
        settings["data_dir"] = str(directory)
        if plans and config.cluster.quorum == LOCAL:
            settings["cluster.seeds"] = plans[0].settings["cluster.listen"]
        plans.append(NodePlan(index + 1, settings))
    _check_distinct(plans)
    return plans


@contextlib.contextmanager
def free_ports() -> Iterator[TakePort]:
    """Ports that nobody listens on, none of them twice; they are free again after the block.

    A node that is restarted keeps the port, which it would not if it were told to listen on 0.
    """
    with contextlib.ExitStack() as stack:

        def take(host: str) -> int:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            taken = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            taken.bind((host, 0))
            port: int = taken.getsockname()[1]
            return port

        yield take


def refuse_directory_of_nodes(data_dir: Path) -> None:
    """A single broker would find nothing in it, and start with no topics."""
    count = _highest(data_dir)
    if count and not _is_data(data_dir):
        nodes = f"{count} nodes" if count > 1 else "a node"
        raise UsageFailure(
            f"{data_dir} holds the data of {nodes}, one directory each: start it with"
            f" --nodes {count}, or one node alone with --data-dir {data_dir / '1'}"
        )


def _check(config: Config, count: int) -> None:
    if config.node_id != 1:
        raise UsageFailure(
            "--nodes numbers its nodes itself: leave --node-id (setting node_id) out, or run one"
            " node in each command (--node-id, --cluster-listen, --seeds)"
        )
    if config.cluster.seeds:
        raise UsageFailure(
            "--nodes runs a whole cluster on this machine, and --seeds joins another one: choose"
            " one of them"
        )
    if config.topics.replication > count:
        there = "is one node" if count == 1 else f"are {count} nodes"
        raise UsageFailure(
            f"replication factor {config.topics.replication} (--replication, setting"
            f" topics.replication), and there {there}: a replica needs a node of its own"
        )


def _directories(data_dir: Path, count: int) -> list[Path]:
    """Each node's; raises `UsageFailure` when there is data of more nodes than are to run."""
    if (highest := _highest(data_dir)) > count:
        raise UsageFailure(
            f"{data_dir} holds the data of node {highest}, which would be left out: say"
            f" --nodes {highest}. A node goes for good with `goqueue cluster remove {highest}`;"
            f" then move {data_dir / str(highest)} away"
        )
    first = data_dir if _is_data(data_dir) else data_dir / "1"
    if first == data_dir and _is_data(data_dir / "1"):
        raise UsageFailure(
            f"both {data_dir} and {data_dir / '1'} hold the data of a broker, and only one of them"
            " can be node 1: move the other one away"
        )
    return [first, *(data_dir / str(number) for number in range(2, count + 1))]


def _highest(data_dir: Path) -> int:
    """The highest number of a node with data here; 0 if there is none."""
    numbers = (number for number in range(NODES_MAX, 0, -1) if _is_data(data_dir / str(number)))
    return next(numbers, 0)


def _is_data(directory: Path) -> bool:
    return any((directory / name).exists() for name in DATA)


def _shift(name: str, text: str, by: int) -> Address:
    """The same host, and the port of a later node; port 0 stays what it is."""
    address = parse_address(text)
    port = address.port + by if address.port else 0
    if port > PORT_MAX:
        raise UsageFailure(f"{name}: {text} leaves no port for node {by + 1}")
    return Address(address.host, port)


def _listen(address: Address, take_port: TakePort) -> str:
    return str(address if address.port else Address(address.host, take_port(address.host)))


def _check_distinct(plans: Sequence[NodePlan]) -> None:
    users: dict[str, str] = {}
    for plan in plans:
        for name in ("kafka.listen", "http.listen", "cluster.listen"):
            user, address = f"{name} of node {plan.node_id}", plan.settings[name]
            if other := users.get(address):
                raise UsageFailure(
                    f"{other} and {user} are both {address}: node N listens N-1 ports behind"
                    " node 1, so leave room between --kafka, --http and --cluster-listen"
                )
            users[address] = user
