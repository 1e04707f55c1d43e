"""Three nodes under measurement, GoQueue's or Apache Kafka's, as one `Broker` for the parts.

Every node is a process on this machine.  Topics have three replicas, of which two must be in sync.
"""

import json
import re
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import ClassVar
from urllib.request import urlopen

import msgspec
from confluent_kafka.admin import AdminClient

from bench import kafka
from bench.brokers import (
    READY_SECONDS_MAX,
    Broker,
    GoQueue,
    answers,
    environment_without_src,
    free_port,
    installed_facts,
)
from bench.etcd import Etcd
from bench.process import Failed, Process, Usage

NODES = 3
LOOK_SECONDS = 0.005

KAFKA_PROPERTIES = """process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://{kafka},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://{kafka}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
default.replication.factor=3
min.insync.replicas=2
"""


class Cluster(Broker):
    """`kafka` names all nodes, and what they use is added up."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.addresses = {node: f"127.0.0.1:{free_port()}" for node in range(1, NODES + 1)}
        self.kafka = ",".join(self.addresses.values())
        self._nodes: dict[int, Process] = {}

    def start(self) -> None:
        began = time.monotonic()
        self.directory.mkdir(parents=True, exist_ok=True)
        for node in self.addresses:
            self.launch(node)
        for node in self.addresses:
            self.wait_for(node)
        self._wait_for_members()
        self.ready_seconds = time.monotonic() - began

    def launch(self, node: int) -> None:
        """Start one, for the first time or again, on its own data."""
        log = self.directory / f"{self.name}-{node}.log"
        self._nodes[node] = Process(self._argv(node), log, env=environment_without_src())

    def _argv(self, node: int) -> list[str]:
        raise NotImplementedError

    def wait_for(self, node: int) -> None:
        process, (host, port) = self._nodes[node], self.addresses[node].rsplit(":", 1)
        while not answers(host, int(port)):
            process.demand_alive()
            if time.monotonic() > process.started + READY_SECONDS_MAX:
                raise Failed(f"node {node} of {self.name} is not ready:\n{process.tail()}")
            time.sleep(LOOK_SECONDS)

    def _wait_for_members(self) -> None:
        """All know of each other, and topics are spread over all of them."""
        admin = AdminClient({"bootstrap.servers": self.kafka, "log_level": 0})
        deadline = time.monotonic() + READY_SECONDS_MAX
        while len(admin.list_topics(timeout=READY_SECONDS_MAX).brokers) < NODES:
            if time.monotonic() > deadline:
                raise Failed(f"the nodes of {self.name} do not meet:\n{self.log_tail()}")
            time.sleep(0.1)

    def controller(self) -> int:
        """The node that decides who leads."""
        raise NotImplementedError

    def node(self, number: int) -> Process:
        return self._nodes[number]

    def stop(self) -> None:
        for process in self._nodes.values():  # all at once: one that waits for others need not
            process.send(signal.SIGTERM)
        for process in self._nodes.values():
            process.stop()
        self._nodes.clear()

    def kill(self) -> None:
        for process in self._nodes.values():
            process.kill()
        self._nodes.clear()

    def usage(self) -> Usage:
        every = [msgspec.structs.astuple(each.usage()) for each in self._nodes.values()]
        return Usage(*(sum(column) for column in zip(*every, strict=True)))

    def log_tail(self) -> str:
        return "\n".join(f"node {n}:\n{each.tail()}" for n, each in self._nodes.items())

    @property
    def command(self) -> str:
        return " ".join(self._nodes[1].argv)


class GoQueueCluster(Cluster):
    """On one voter, node 1; with `on_etcd` on an etcd, so that any node may be killed."""

    name = "goqueue"
    topic_settings: ClassVar = GoQueue.topic_settings

    def __init__(self, directory: Path, executable: str, *, on_etcd: bool = False) -> None:
        super().__init__(directory)
        self._executable = executable
        self.version = str(installed_facts(executable)["version"])
        self._http = {node: f"127.0.0.1:{free_port()}" for node in self.addresses}
        self._peers = {node: f"127.0.0.1:{free_port()}" for node in self.addresses}
        self.http = self._http[1]
        self._etcd = Etcd(directory / "etcd") if on_etcd else None

    def start(self) -> None:
        if self._etcd is not None:
            self._etcd.start()
        super().start()

    def stop(self) -> None:
        super().stop()
        if self._etcd is not None:
            self._etcd.stop()

    def kill(self) -> None:
        super().kill()
        if self._etcd is not None:
            self._etcd.stop()

    def launch(self, node: int) -> None:
        super().launch(node)
        self.wait_for(1)  # the others join it

    def _argv(self, node: int) -> list[str]:
        argv = [self._executable, "server", "--data-dir", str(self.directory / str(node))]
        argv += ["--node-id", str(node), "--replication", str(NODES), "--log-level", "warning"]
        argv += ["--kafka", self.addresses[node], "--http", self._http[node]]
        argv += ["--cluster-listen", self._peers[node]]
        if self._etcd is not None:
            return [*argv, "--quorum", self._etcd.url, "--set", f"cluster.machine=machine{node}"]
        return argv if node == 1 else [*argv, "--seeds", self._peers[1]]

    def controller(self) -> int:
        for address in self._http.values():
            with suppress(OSError), urlopen(f"http://{address}/cluster/quorum", timeout=5) as reply:
                found: int = json.load(reply)["controller_id"]
                return found
        raise Failed("no node of goqueue says who the controller is")


class KafkaCluster(Cluster):
    name = "kafka"
    topic_settings: ClassVar = kafka.Kafka.topic_settings

    def __init__(self, directory: Path, versions: str = kafka.VERSIONS) -> None:
        super().__init__(directory)
        self._libraries = kafka.fetched(versions)
        self.version = kafka.version_of(self._libraries)

    def start(self) -> None:
        if not self.directory.exists():
            self._format()
        super().start()

    def _format(self) -> None:
        self.directory.mkdir(parents=True)
        ports = {node: free_port() for node in self.addresses}
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in ports.items())
        cluster_id = kafka.new_cluster_id()
        for node, address in self.addresses.items():
            text = KAFKA_PROPERTIES.format(
                node=node,
                voters=voters,
                kafka=address,
                controller=ports[node],
                data=self.directory / str(node),
            )
            self._properties(node).write_text(text)
            kafka.format_storage(self._libraries, cluster_id, self._properties(node))

    def _argv(self, node: int) -> list[str]:
        return kafka.server_argv(self._libraries, self._properties(node))

    def _properties(self, node: int) -> Path:
        return self.directory / f"{node}.properties"

    def controller(self) -> int:
        tool = [
            "java",
            "-cp",
            f"{self._libraries}/*",
            "org.apache.kafka.tools.MetadataQuorumCommand",
        ]
        text = kafka.run(
            [*tool, "--bootstrap-server", self.kafka, "describe", "--status"], self.directory
        )
        found = re.search(r"LeaderId:\s+(\d+)", text)
        if found is None:
            raise Failed(f"kafka does not say who the controller is:\n{text}")
        return int(found[1])
