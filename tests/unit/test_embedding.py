"""A broker in a block: on the loop, in a thread, and as a fixture."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import goqueue
from goqueue import Message
from goqueue.model.errors import DataDirectoryInUse, GoQueueError, InvalidSetting, TopicNotFound


async def test_messages_come_back_through_every_door():
    async with goqueue.embedded(topics={"partitions": 2}) as broker:
        placed = await broker.publish("orders", "a", b"\xff", Message("c", "k", {"h": "1"}))
        assert min(each.offset for each in placed) == 0
        assert {each.value for each in await broker.read("orders")} == {b"a", b"\xff", b"c"}
        async with goqueue.AsyncClient(broker.http) as client:
            assert (await client.topic("orders")).partitions == 2
            assert [each async for each in client.read("orders")] == await broker.read("orders")


async def test_a_message_keeps_its_priority_time_to_live_and_delay():
    async with goqueue.embedded(topics={"partitions": 1}) as broker:
        message = Message("x", priority="high", ttl_ms=5000)
        later = Message("later", delay_ms=3_600_000)
        _, delayed = await broker.publish("orders", message, later)
        assert delayed.is_delayed
        (found,) = await broker.read("orders")
        assert dict(found.headers) == {"gq-priority": b"high", "gq-ttl-ms": b"5000"}


async def test_a_given_directory_is_kept_and_another_is_not(tmp_path: Path):
    async with goqueue.embedded(tmp_path) as broker:
        await broker.create_topic("t", partitions=1, settings={"retention.ms": "-1"})
        await broker.publish("t", *(str(number) for number in range(2_500)))
    async with goqueue.embedded(tmp_path) as broker:
        again = await broker.read("t", partition=0)
        assert [int(each.value or b"") for each in again] == list(range(2_500))
    async with goqueue.embedded() as broker:
        temporary = broker.data_dir
        assert temporary.is_dir()
    assert not temporary.exists()


async def test_errors_are_the_broker_s_own(tmp_path: Path):
    async with goqueue.embedded(tmp_path) as broker:
        with pytest.raises(TopicNotFound):
            await broker.read("nothing")
        with pytest.raises(GoQueueError):
            await broker.publish("t", Message("x", partition=99))
        with pytest.raises(DataDirectoryInUse):
            goqueue.embedded(tmp_path).__enter__()


@pytest.mark.parametrize(
    "settings", [{"topics": {"partitons": 1}}, {"node_id": "x"}, {"topics": {"partitions": 0}}]
)
async def test_bad_settings_are_refused(settings: dict[str, Any]):
    with pytest.raises(InvalidSetting):
        await goqueue.embedded(**settings).__aenter__()


async def test_all_bad_settings_are_named_at_once():
    wrong: dict[str, Any] = {
        "topics": {"partitons": 1, "auto_create": "perhaps"},
        "storage": {"checkpoint_ms": "soon", "retention_check_ms": -1},
        "node_id": -1,
    }
    with pytest.raises(InvalidSetting) as caught:
        await goqueue.embedded(**wrong).__aenter__()
    for name in (
        *("topics.partitons", "topics.auto_create", "storage.checkpoint_ms"),
        *("storage.retention_check_ms", "node_id"),
    ):
        assert name in str(caught.value)


def test_in_a_thread_it_serves_a_program_that_waits():
    before = threading.enumerate()
    with goqueue.embedded() as broker:
        broker.create_topic("t", partitions=1)
        assert broker.publish("t", "a", "b")[1].offset == 1
        with goqueue.Client(broker.http) as client:
            client.publish("t", [Message("c")])
        assert [each.value for each in broker.read("t")] == [b"a", b"b", b"c"]
        broker.run(broker.broker.delete_topic("t"))
        with pytest.raises(TopicNotFound):
            broker.read("t")
    assert "goqueue" not in {each.name for each in threading.enumerate() if each not in before}


def test_an_error_in_the_block_still_ends_the_broker():
    directories = []

    def fail() -> None:
        with goqueue.embedded() as broker:
            directories.append(broker.data_dir)
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert not directories[0].exists()


# --- the fixture ----------------------------------------------------------------------------------

TESTS = """
seen = []

def test_one(goqueue_broker):
    goqueue_broker.publish("t", "x")
    seen.append(goqueue_broker.http)

def test_two(goqueue_broker):
    seen.append(goqueue_broker.http)
    assert (seen[0] == seen[1]) is SHARED
"""


@pytest.mark.parametrize(("scope", "shared"), [("function", False), ("session", True)])
def test_the_fixture_lives_as_long_as_the_setting_says(scope: str, shared: bool, tmp_path: Path):
    (tmp_path / "test_it.py").write_text(TESTS.replace("SHARED", str(shared)))
    options = ("-q", "-p", "goqueue.testing", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *options, "-o", f"goqueue_broker_scope={scope}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        # The installed package is known to pytest by another name, which must not load it twice.
        env={**os.environ, "PYTHONPATH": absolute_path(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def absolute_path() -> str:
    """The search path, for a process that starts in another directory."""
    given = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(str(Path(each).resolve()) for each in given.split(os.pathsep) if each)
