"""A transactional producer goes on when its only broker was restarted."""

import subprocess
import sys
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.server import Server
from tests.conformance.transactional_clients import READERS, committed_offset

PROGRAM = Path(__file__).with_name("restarted_producer.py")
RUN_S = 60.0
GROUP = "billing"

# librdkafka up to this version, left to itself, hangs for ever in send_offsets_to_transaction: it
# bootstraps anew, decommissions the broker, and keeps it as the coordinator all the same.
HANGS_UP_TO = (2, 16, 0)
WORKAROUND = "metadata.recovery.strategy=none"


@pytest.fixture
def topic(own_server: Server) -> str:
    admin = AdminClient(own_server.bootstrap)
    admin.create_topics([NewTopic("bills", 1)])["bills"].result(20)
    return "bills"


def commits_across_a_restart(server: Server, topic: str, *settings: str) -> bool:
    """Whether both transactions were committed; False if the producer hung."""
    process = subprocess.Popen(
        [sys.executable, "-P", str(PROGRAM), server.address, topic, GROUP, *settings],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "committed 1\n"
        server.stop()
        server.start()
        told, _ = process.communicate("go on\n", timeout=RUN_S)
    except subprocess.TimeoutExpired:
        return False
    finally:
        process.kill()
        process.communicate()
    return told == "committed 2\n"


@pytest.mark.timeout(3 * RUN_S)
def test_a_producer_goes_on_after_a_restart(own_server: Server, topic: str):
    assert commits_across_a_restart(own_server, topic, WORKAROUND)
    assert READERS["confluent"](own_server.address, topic, 1, "read_committed") == [b"1", b"2"]
    assert committed_offset(own_server.address, GROUP, [(topic, 0)]) == [2]


@pytest.mark.timeout(3 * RUN_S)
def test_a_newer_librdkafka_is_tried_without_the_workaround(request: pytest.FixtureRequest):
    """Costs nothing until there is one; then it tells when the workaround can go."""
    name, number = confluent_kafka.libversion()
    version = tuple(number >> shift & 0xFF for shift in (24, 16, 8))
    if version <= HANGS_UP_TO:
        pytest.xfail(f"librdkafka {name} is known to hang without {WORKAROUND}")
    server, topic = (request.getfixturevalue(each) for each in ("own_server", "topic"))
    if not commits_across_a_restart(server, topic):
        pytest.xfail(f"librdkafka {name} still hangs: raise HANGS_UP_TO to it")
    pytest.fail(
        f"librdkafka {name} no longer hangs after a restart: take {WORKAROUND} out of this test and"
        " out of docs/guides/transactions.md, and say from which version on it is not needed"
    )
