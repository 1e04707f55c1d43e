"""Apache Kafka's own command line tools against three nodes.

As `test_java.py`: slow, and skipped where there is no Java or no Maven.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.cluster_processes import NodeProcess, running_cluster
from tests.conformance.test_java import java, libraries

__all__ = ["libraries"]  # the fixture: it fetches the tools

TOPIC = "orders"
MESSAGES = 2_000
WAIT_S = 60.0
LEADERS = {0: 2, 1: 3, 2: 1}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not shutil.which("java"), reason="needs java"),
    pytest.mark.skipif(not shutil.which("mvn"), reason="needs Maven"),
]

Eventually = Callable[..., None]
Run = Callable[..., str]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NodeProcess]]:
    directory = tmp_path_factory.mktemp("tools")
    replication: dict[str, Any] = {"topics.replication": 3}
    with running_cluster(directory, 3, has_racks=True, **replication) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def run(nodes: list[NodeProcess]) -> Run:
    """A tool, at a node that neither has the vote nor leads everything."""

    def run(tool: str, *arguments: str, given: str = "") -> str:
        return java(tool, "--bootstrap-server", nodes[2].kafka, *arguments, given=given)

    assignment = "2:3:1,3:1:2,1:2:3"
    run("TopicCommand", "--create", "--topic", TOPIC, "--replica-assignment", assignment)
    numbers = "".join(f"{number}\n" for number in range(MESSAGES))
    run("ConsoleProducer", "--topic", TOPIC, given=numbers)
    return run


def leaders(run: Run) -> dict[int, int]:
    described = run("TopicCommand", "--describe", "--topic", TOPIC)
    found = {}
    for line in described.splitlines()[1:]:
        fields = dict(part.split(": ", 1) for part in line.split("\t") if ": " in part)
        found[int(fields["Partition"])] = int(fields["Leader"])
    return found


def test_topics_are_created_described_and_grown(run: Run):
    assert leaders(run) == LEADERS
    run("TopicCommand", "--create", "--topic", "grows", "--partitions", "3")
    run("TopicCommand", "--alter", "--topic", "grows", "--partitions", "5")
    described = run("TopicCommand", "--describe", "--topic", "grows")
    assert "PartitionCount: 5\tReplicationFactor: 3" in described
    assert run("TopicCommand", "--describe", "--under-replicated-partitions") == ""


def test_log_dirs_are_those_of_all_nodes(run: Run):
    told = run("LogDirsCommand", "--describe", "--topic-list", TOPIC)
    brokers = json.loads(told.splitlines()[-1])["brokers"]
    assert [each["broker"] for each in brokers] == [1, 2, 3]
    for broker in brokers:
        (directory,) = broker["logDirs"]
        assert len(directory["partitions"]) == 3
        assert {each["offsetLag"] for each in directory["partitions"]} == {0}
    sizes = [sum(each["size"] for each in broker["logDirs"][0]["partitions"]) for broker in brokers]
    assert sizes[0] == sizes[1] == sizes[2] > 0


def test_the_quorum_and_features_are_described(run: Run):
    status = run("MetadataQuorumCommand", "describe", "--status")
    assert "LeaderId:               1" in status
    replication = run("MetadataQuorumCommand", "describe", "--replication")
    rows = [line.split() for line in replication.splitlines()[1:]]
    assert [(row[0], row[-1]) for row in rows] == [
        ("1", "Leader"),
        ("2", "Observer"),
        ("3", "Observer"),
    ]
    features = run("FeatureCommand", "describe")
    assert "Feature: transaction.version" in features
    upgraded = run("FeatureCommand", "upgrade", "--feature", "transaction.version=2")
    assert "transaction.version was upgraded to 2." in upgraded


def test_groups_are_described_reset_and_deleted(run: Run):
    read = run(
        "consumer.ConsoleConsumer",
        *("--topic", TOPIC, "--from-beginning", "--max-messages", str(MESSAGES)),
        *("--group", "readers", "--command-property", "client.rack=rack-3"),
    )
    assert sorted(map(int, read.split())) == list(range(MESSAGES))
    group = ("--group", "readers")
    described = run("consumer.group.ConsumerGroupCommand", "--describe", *group)
    rows = [line.split() for line in described.splitlines() if line.startswith("readers")]
    assert sum(int(row[3]) for row in rows) == MESSAGES
    assert {row[5] for row in rows} == {"0"}  # the lag
    earliest = ("--reset-offsets", "--to-earliest", "--all-topics", "--execute")
    reset = run("consumer.group.ConsumerGroupCommand", *group, *earliest)
    assert [line.split()[3] for line in reset.splitlines() if "readers" in line] == ["0"] * 3
    deleted = run("consumer.group.ConsumerGroupCommand", *group, "--delete")
    assert "was successful" in deleted


def test_transactions_are_listed_and_none_hangs(run: Run):
    assert "TransactionalId" in run("TransactionsCommand", "list")
    for node in (1, 2, 3):
        hanging = run("TransactionsCommand", "find-hanging", "--broker-id", str(node))
        assert len(hanging.splitlines()) <= 1  # the titles


def test_replicas_are_moved_under_a_throttle_and_leaders_elected(
    run: Run, tmp_path: Path, eventually: Eventually
):
    wanted = tmp_path / "topics.json"
    wanted.write_text(json.dumps({"version": 1, "topics": [{"topic": TOPIC}]}))
    choose = ("--topics-to-move-json-file", str(wanted), "--broker-list", "1,2,3", "--generate")
    generated = run("reassign.ReassignPartitionsCommand", *choose)
    proposal = json.loads(generated.splitlines()[-1])
    assert [len(each["replicas"]) for each in proposal["partitions"]] == [3, 3, 3]

    plan = tmp_path / "plan.json"
    moves = {0: [3, 1], 1: [1, 2], 2: [2, 3]}
    partitions = [
        {"topic": TOPIC, "partition": index, "replicas": replicas}
        for index, replicas in moves.items()
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    which = ("--reassignment-json-file", str(plan))
    move = "reassign.ReassignPartitionsCommand"
    started = run(move, *which, "--execute", "--throttle", "10000000")
    assert "The inter-broker throttle limit was set to 10000000 B/s" in started
    assert "Successfully started partition reassignments" in started

    def is_done() -> bool:
        return run(move, *which, "--verify").count("is completed") == len(moves)

    eventually(is_done, within_s=WAIT_S)
    assert "No partition reassignments found" in run(move, "--list")
    run("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    eventually(
        lambda: leaders(run) == {index: each[0] for index, each in moves.items()}, within_s=WAIT_S
    )
    offsets = run("GetOffsetShell", "--topic", TOPIC)
    assert sum(int(line.rsplit(":", 1)[1]) for line in offsets.splitlines()) == MESSAGES
