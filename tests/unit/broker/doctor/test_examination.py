"""A damaged data directory: the server refuses it, the doctor mends it, and the server starts."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import pytest

from goqueue.broker import Broker, machine_host
from goqueue.broker.doctor.examination import Examination, examine
from goqueue.broker.metadata import node_file
from goqueue.broker.metadata.node_file import NodeFile
from goqueue.client import AsyncClient
from goqueue.embedding import embedded
from goqueue.groups import CommitRequest, FetchRequest, OffsetToCommit
from goqueue.log.aborted import AbortedRange
from goqueue.model.config import Config
from goqueue.model.errors import CorruptData
from goqueue.model.ids import GroupId, Offset, Timestamp, TopicName, TopicPartition
from goqueue.model.markers import Marker
from goqueue.runtime import real_environment
from tests import queue_verbs
from tests.unit.broker.brokers import publish, running, values_in

LOGS = ("__metadata", "__groups", "__transactions", "__ledgers")
COUNT = 12


@contextlib.asynccontextmanager
async def broker(directory: Path) -> AsyncIterator[Broker]:
    environment = real_environment()
    try:
        async with running(environment, Config(data_dir=str(directory))) as broker:
            yield broker
    finally:
        environment.disk.close()


async def read(broker: Broker, topic: str) -> list[str]:
    return await values_in(await broker.partition(topic, 0))


async def fill(directory: Path) -> None:
    """Topics, committed offsets, a queue with acks, transactions; each log has many batches."""
    node = embedded(directory, topics={"partitions": 1})
    async with node as embedding, httpx.AsyncClient(base_url=embedding.http) as client:
        for number in range(COUNT):
            await embedding.create_topic(f"t{number}")
        await embedding.publish("t0", *(f"m{number}" for number in range(COUNT)))
        for number in range(COUNT):
            body = {"offsets": {"t0": {"0": number}}}
            (await client.post("/groups/readers/offsets", json=body)).raise_for_status()
        async with AsyncClient(embedding.http) as worker:
            for _ in range(COUNT // 2):
                held = await worker.receive("t0", "workers", max_messages=1)
                await worker.ack(*held)
        for number in range(COUNT):
            await embedding.broker.transactions.init(f"tx-{number}", timeout_ms=60_000)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("filled") / "data"
    asyncio.run(fill(directory))
    return directory


@pytest.fixture
def data(filled: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(filled, tmp_path / "data"))


def node_file_of(data: Path) -> NodeFile:
    disk = real_environment().disk
    found = node_file.load(disk, str(data))
    disk.close()
    assert found is not None
    return found


def examined(data: Path, *, repairs: bool = False) -> Examination:
    disk = real_environment().disk
    try:
        return examine(
            disk,
            Config(data_dir=str(data)),
            Timestamp(1_750_000_000_000),
            repairs=repairs,
            aside=f"{data}/damaged/now",
            cluster_id="named-anew",
        )
    finally:
        disk.close()


def flip(file: Path, share: float = 0.5) -> None:
    content = bytearray(file.read_bytes())
    content[int(len(content) * share)] ^= 0x40
    file.write_bytes(content)


def only_log(data: Path, topic: str) -> Path:
    (file,) = (data / "logs" / topic / "0").glob("*.log")
    return file


def test_a_directory_in_good_order_has_no_problems(data: Path):
    found = examined(data)
    assert {each.status for each in found.findings} == {"ok"}
    assert found.topics == COUNT
    assert found.records > 5 * COUNT


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("share", [0.05, 0.5, 0.97])
async def test_a_damaged_internal_log_is_mended_and_what_is_lost_is_named(
    data: Path, log: str, share: float
):
    before = only_log(data, log)
    flip(before, share)
    damaged = before.read_bytes()
    with pytest.raises(CorruptData, match=f"{log}.*goqueue doctor --data-dir .* --repair"):
        async with broker(data):
            pass
    found = examined(data)
    problems = [each for each in found.findings if each.status == "problem"]
    assert {each.subject for each in problems} == {log}
    assert ") cannot be read" in problems[0].text
    mended = examined(data, repairs=True)
    assert not mended.has_problems
    assert any(each.status == "repaired" and each.subject == log for each in mended.findings)
    kept = data / "damaged" / "now" / before.relative_to(data)
    assert kept.read_bytes() == damaged
    assert not examined(data).has_problems
    async with broker(data) as started:
        assert await read(started, "t0") == [f"m{number}" for number in range(COUNT)]
        await publish(started, "t0", "afterwards")
        await started.create_topic("new")
        assert await started.reserve_producer_id() >= COUNT
    async with broker(data) as started:
        assert started.has_topic("new")
        assert len(await read(started, "t0")) == COUNT + 1


async def test_records_behind_the_damage_count_too(data: Path):
    flip(only_log(data, "__groups"), 0.5)
    examined(data, repairs=True)
    async with broker(data) as started:
        (fetched,) = await started.groups.fetch([FetchRequest(group_id=GroupId("readers"))])
        committed = fetched.offsets[TopicPartition(TopicName("t0"), 0)]
        assert committed is not None
        assert committed.offset == COUNT - 1, "the last commit lies behind the damage"


async def commit(broker: Broker, group: str, offset: int) -> None:
    wanted = OffsetToCommit(topic=TopicName("t0"), partition=0, offset=Offset(offset))
    await broker.groups.commit(CommitRequest(group_id=GroupId(group), offsets=(wanted,)))


async def offset_of(broker: Broker, group: str) -> int | None:
    (fetched,) = await broker.groups.fetch([FetchRequest(group_id=GroupId(group))])
    committed = fetched.offsets.get(TopicPartition(TopicName("t0"), 0))
    return None if committed is None else committed.offset


@pytest.mark.parametrize("log", ["__metadata", "__transactions"])
async def test_damage_behind_the_checkpoint_of_a_killed_server_is_mended_too(
    data: Path, tmp_path: Path, log: str
):
    """No checkpoint knows of the records: they were written since."""
    async with broker(data) as started:
        for number in range(COUNT):
            await started.create_topic(f"more{number}")
            await started.transactions.init(f"more-{number}", timeout_ms=60_000)
        killed = Path(shutil.copytree(data, tmp_path / "killed"))
    flip(only_log(killed, log), 0.8)
    assert not examined(killed, repairs=True).has_problems
    async with broker(killed) as started:
        assert len(await read(started, "t0")) == COUNT


async def test_topics_come_back_when_the_metadata_is_gone(data: Path):
    shutil.rmtree(data / "logs" / "__metadata")
    shutil.rmtree(data / "snapshots", ignore_errors=True)
    with pytest.raises(CorruptData, match="goqueue doctor"):
        async with broker(data):
            pass
    mended = examined(data, repairs=True)
    assert any("a topic again" in each.text for each in mended.findings)
    async with broker(data) as started:
        assert len(await read(started, "t0")) == COUNT
        assert started.cluster_id == node_file_of(data).cluster_id


async def test_cluster_is_named_when_nothing_knows_its_name(data: Path):
    shutil.rmtree(data / "logs" / "__metadata")
    shutil.rmtree(data / "snapshots", ignore_errors=True)
    (data / "node.meta").unlink()
    examined(data, repairs=True)
    async with broker(data) as started:
        assert started.cluster_id == "named-anew"


async def test_damaged_node_file_is_put_aside(data: Path):
    flip(data / "node.meta")
    assert examined(data).has_problems
    with pytest.raises(CorruptData, match="goqueue doctor"):
        async with broker(data):
            pass
    assert not examined(data, repairs=True).has_problems
    async with broker(data) as started:
        assert len(await read(started, "t0")) == COUNT


def test_topics_are_not_compared_with_metadata_that_is_in_etcd(data: Path):
    shutil.rmtree(data / "logs" / "__metadata")
    shutil.rmtree(data / "snapshots", ignore_errors=True)
    node = msgspec.structs.replace(node_file_of(data), quorum="etcd")
    disk = real_environment().disk
    node_file.store(disk, str(data), node)
    disk.close()
    found = examined(data, repairs=True)
    assert not found.has_problems
    assert any("in etcd" in each.text for each in found.findings)
    assert not (data / "logs" / "__metadata").exists()


async def test_a_damaged_snapshot_gives_way_to_an_older_one(data: Path):
    async with broker(data) as started:
        for _ in range(2):
            await started.controller.host.take_snapshot()
            await started.change_settings("t0", {"retention.ms": "1000"})
    newest = max((data / "snapshots" / "__metadata").glob("*.snapshot"))
    flip(newest)
    found = examined(data)
    assert not found.has_problems
    assert any(each.status == "warning" and str(newest) in each.text for each in found.findings)
    async with broker(data):
        pass


async def test_a_snapshot_in_a_log_counts_and_what_is_sound_of_a_damaged_one(
    data: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(machine_host, "SLICE_RECORDS", 1)
    async with broker(data) as started:
        for number in range(20):
            await commit(started, f"group-{number}", number)
        await started.groups.host.take_snapshot()
        await commit(started, "late", 19)
    assert not list((data / "snapshots").glob("__groups/*"))
    assert not examined(data).has_problems
    log = only_log(data, "__groups")
    content = log.read_bytes()
    flip(log, (content.rindex(b"group-9") + 1) / len(content))
    with pytest.raises(CorruptData, match="__groups"):
        async with broker(data):
            pass
    (problem,) = (each for each in examined(data).findings if each.status == "problem")
    assert problem.subject == "__groups"
    assert "(1 record)" in problem.text
    assert not examined(data, repairs=True).has_problems
    assert not examined(data).has_problems
    async with broker(data) as started:
        assert await offset_of(started, "group-9") is None, "its slice is lost"
        assert await offset_of(started, "group-8") == 8
        assert await offset_of(started, "late") == 19


async def test_a_damaged_ledger_is_mended_and_what_is_lost_is_named(data: Path):
    async with broker(data) as started:
        for _ in range(3):
            (message,) = await queue_verbs.receive(
                started.queues, ["t0"], "late", "ann", max_messages=1
            )
            await queue_verbs.ack(started.queues, [message.receipt])
    flip(data / "logs" / "t0" / "0" / "ledger" / "00000000000000000000.log", 0.9)
    found = examined(data)
    (problem,) = (each for each in found.findings if each.status == "problem")
    assert problem.subject == "t0-0 (ledger)"
    assert "those messages are delivered again" in problem.text
    mended = examined(data, repairs=True)
    assert not mended.has_problems
    assert not examined(data).has_problems
    async with broker(data) as started:
        states = started.queues.groups[GroupId("late")].states
        floor = states[TopicPartition(TopicName("t0"), 0)].ack_floor
        assert 0 < floor < 3, "what was acked before the damage stays so"
        assert await queue_verbs.receive(started.queues, ["t0"], "late", "bob", max_messages=1)


def test_damaged_messages_are_a_problem_that_repair_leaves_alone(data: Path):
    file = only_log(data, "t0")
    flip(file)
    before = file.read_bytes()
    found = examined(data, repairs=True)
    (problem,) = (each for each in found.findings if each.status == "problem")
    assert problem.subject == "t0-0"
    assert "seek to offset" in problem.text
    assert file.read_bytes() == before


async def test_the_file_that_says_whose_a_directory_is_is_written_anew(data: Path):
    flip(data / "logs" / "t0" / "topic")
    assert examined(data).has_problems
    assert not examined(data, repairs=True).has_problems
    async with broker(data) as started:
        assert len(await read(started, "t0")) == COUNT


@pytest.mark.parametrize("name", ["checkpoint", "*.index", "*.timeindex", "leader-epochs"])
def test_what_the_server_mends_by_itself_is_a_warning(data: Path, name: str):
    (file,) = (data / "logs" / "t0" / "0").glob(name)
    flip(file, 0.9)
    found = examined(data)
    assert not found.has_problems
    assert any(each.status == "warning" and str(file) in each.text for each in found.findings)


async def test_a_damaged_abort_index_is_a_warning(data: Path):
    async with broker(data) as started:
        who = await started.transactions.init("aborting", timeout_ms=60_000)
        partition = await started.partition("t0", 0)
        partition.append_marker(
            Marker(who.producer_id, who.epoch, coordinator_epoch=0, commits=False), Timestamp(1)
        )
        partition.log.aborted.append(AbortedRange(1, Offset(0), Offset(1), Offset(2)))
    file = data / "logs" / "t0" / "0" / "aborted"
    flip(file, 0.9)
    found = examined(data)
    assert not found.has_problems
    assert any(each.status == "warning" and str(file) in each.text for each in found.findings)


def test_a_torn_end_is_no_problem(data: Path):
    with only_log(data, "t0").open("ab") as file:
        file.write(b"\0" * 30)
    found = examined(data)
    assert not found.has_problems
    assert any("no whole batch" in each.text for each in found.findings)


def test_nothing_is_written_without_being_asked(data: Path):
    for log in LOGS:
        flip(only_log(data, log))
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    assert examined(data).has_problems
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before
