"""Apache Kafka's own command line tools, which use its Java clients, against the broker.

They come from Maven when first used and are kept in the user's cache.  Slow, and skipped where
there is no Java or no Maven: `pytest -m slow tests/conformance/test_java.py`.
"""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conformance.conftest import MakeTopic
from tests.conformance.server import Server

VERSION = "4.3.1"
CACHE = Path.home() / ".cache" / "goqueue-java"
LIBRARIES = CACHE / VERSION
POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>goqueue</groupId><artifactId>java-tools</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId>
<version>{version}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId>
<version>1.7.36</version></dependency>
</dependencies></project>
"""
TOOLS = "org.apache.kafka.tools"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not shutil.which("java"), reason="needs java"),
    pytest.mark.skipif(not shutil.which("mvn"), reason="needs Maven"),
]


@pytest.fixture(scope="module", autouse=True)
def libraries() -> None:
    fetch("kafka-tools", LIBRARIES)


def fetch(artifact: str, directory: Path) -> None:
    """Kafka's artifact and what it needs, unless they are there."""
    if directory.is_dir():
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    pom = CACHE / f"{artifact}.xml"
    pom.write_text(POM.format(artifact=artifact, version=VERSION))
    output = f"-DoutputDirectory={directory}"
    command = ["mvn", "-q", "-f", str(pom), "dependency:copy-dependencies", output]
    subprocess.run(command, check=True, timeout=500, capture_output=True)


def java(tool: str, *arguments: str, given: str = "", options: Sequence[str] = ()) -> str:
    done = run_java(LIBRARIES, f"{TOOLS}.{tool}", *arguments, given=given, options=options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_java(
    libraries: Path, name: str, *arguments: str, given: str = "", options: Sequence[str] = ()
) -> "subprocess.CompletedProcess[str]":
    """A class with its arguments; `options` are Java's own."""
    command = ["java", *options, "-cp", f"{libraries}/*", name, *arguments]
    return subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=90, check=False
    )


@pytest.fixture
def at(server: Server) -> tuple[str, str]:
    return "--bootstrap-server", server.address


def test_the_console_tools_write_and_read(at: tuple[str, str], make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    java("ConsoleProducer", *at, "--topic", topic, given="".join(f"{n}\n" for n in range(50)))
    for protocol in ("classic", "consumer"):
        read = java(
            "consumer.ConsoleConsumer",
            *at,
            *("--topic", topic, "--from-beginning", "--max-messages", "50"),
            *("--group", f"{topic}-{protocol}"),
            *("--command-property", f"group.protocol={protocol}"),
        )
        assert sorted(map(int, read.split())) == list(range(50))
        described = java(
            "consumer.group.ConsumerGroupCommand",
            *at,
            *("--describe", "--group", f"{topic}-{protocol}"),
        )
        lags = [line.split()[5] for line in described.splitlines() if topic in line.split()[1:2]]
        assert lags == ["0", "0", "0"]


def test_a_topic_is_created_described_and_deleted(at: tuple[str, str]) -> None:
    java("TopicCommand", *at, "--create", "--topic", "from-java", "--partitions", "4")
    described = java("TopicCommand", *at, "--describe", "--topic", "from-java")
    assert "PartitionCount: 4" in described
    java("TopicCommand", *at, "--delete", "--topic", "from-java")
    assert "from-java" not in java("TopicCommand", *at, "--list").split()


def test_tools_for_clusters_are_answered_by_the_only_node(
    at: tuple[str, str], topic: str, tmp_path: Path
) -> None:
    features = java("FeatureCommand", *at, "describe")
    assert "metadata.version" in features
    status = java("MetadataQuorumCommand", *at, "describe", "--status")
    assert "MaxFollowerLag:         0" in status
    elected = java(
        "LeaderElectionCommand",
        *at,
        *("--election-type", "preferred", "--topic", topic, "--partition", "0"),
    )
    assert f"Valid replica already elected for partitions {topic}-0" in elected
    plan = tmp_path / "plan.json"
    partition = {"topic": topic, "partition": 0, "replicas": [1]}
    plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    reassign = "reassign.ReassignPartitionsCommand"
    file = ("--reassignment-json-file", str(plan))
    assert "Successfully started" in java(reassign, *at, *file, "--execute")
    assert f"Reassignment of partition {topic}-0 is completed" in java(
        reassign, *at, *file, "--verify"
    )
    assert "No partition reassignments found" in java(reassign, *at, "--list")


def test_a_transactional_producer_commits(at: tuple[str, str], topic: str) -> None:
    java(
        "ProducerPerformance",
        *at,
        *("--topic", topic, "--num-records", "20000", "--record-size", "100"),
        *("--throughput", "-1", "--transactional-id", topic, "--transaction-duration-ms", "100"),
    )
    assert "CompleteCommit" in java("TransactionsCommand", *at, "list")
    read = java(
        "consumer.ConsoleConsumer",
        *at,
        *("--topic", topic, "--from-beginning", "--max-messages", "20000"),
        *("--command-property", "isolation.level=read_committed"),
    )
    assert len(read.splitlines()) == 20_000
