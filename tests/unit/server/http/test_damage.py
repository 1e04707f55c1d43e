"""Reading where the log holds what cannot be served: damage, nonsense, aborted transactions."""

from pathlib import Path

import httpx
import pytest_asyncio

from goqueue.broker import Partition
from goqueue.model import batch as batches
from goqueue.model.markers import Marker
from goqueue.model.record import Record

Client = httpx.AsyncClient
PATH = "/topics/t/partitions/0/messages"


@pytest_asyncio.fixture(loop_scope="session")
async def partition(server, client: Client) -> Partition:
    await client.post("/topics", json={"name": "t", "num_partitions": 1})
    found: Partition = await server.broker.partition("t", 0)
    return found


async def publish(client: Client, value: str) -> None:
    await client.post("/topics/t/messages", json={"messages": [{"value": value}]})


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"broken", b"brOken"))


async def test_damage_is_told_with_the_place_to_go_on_from(client: Client, partition: Partition):
    for value in ("first", "broken", "last"):
        await publish(client, value)
    damage(Path(partition.log.active.log.path))

    assert [each["value"] for each in (await client.get(PATH)).json()["messages"]] == ["first"]
    answer = await client.get(f"{PATH}?offset=1")
    assert answer.status_code == 500
    error = answer.json()["error"]
    assert error["code"] == "corrupt_data"
    assert error["details"] == {"continue_at": 2}
    assert "continue at offset 2" in error["message"]
    rest = (await client.get(f"{PATH}?offset=2")).json()
    assert [each["value"] for each in rest["messages"]] == ["last"]

    merged = (await client.get("/topics/t/messages")).json()
    assert [each["value"] for each in merged["messages"]] == ["first", "last"]
    assert "offsets 1 to 1" in merged["problems"][0]


async def test_a_sound_batch_of_nonsense_is_stepped_over(
    server, client: Client, partition: Partition
):
    """A Kafka client's checksum covers whatever it put into the batch."""
    nonsense = batches.assemble(
        b"these are not records at all",
        base_offset=0,
        last_offset_delta=2,
        base_timestamp=0,
        max_timestamp=0,
        count=3,
        attributes=0,
        producer=(-1, -1, -1),
    )
    appended = server.broker.append(partition, nonsense)
    await partition.wait_committed(appended.last_offset)
    await publish(client, "sound")
    answer = await client.get(PATH)
    error = answer.json()["error"]
    assert answer.status_code == 422  # nothing is damaged: it is as its producer sent it
    assert (error["code"], error["details"]) == ("unreadable_records", {"continue_at": 3})
    rest = (await client.get(f"{PATH}?offset=3")).json()
    assert [each["value"] for each in rest["messages"]] == ["sound"]


async def test_readers_see_neither_open_nor_aborted_transactions(
    server, client: Client, partition: Partition
):
    def write(producer: int, value: bytes) -> None:
        data = batches.encode(
            [Record(0, 1_700_000_000_000, None, value)],
            attributes=batches.TRANSACTIONAL,
            producer=(producer, 0, 0),
        )
        server.broker.append(partition, data)

    def end(producer: int, *, commits: bool) -> None:
        partition.log.append_marker(
            Marker(producer, 0, coordinator_epoch=0, commits=commits),
            epoch=partition.leader_epoch,
            now=server.broker.environment.clock.now(),
        )

    write(1, b"aborted")
    write(2, b"committed")
    assert (await client.get(PATH)).json()["messages"] == []
    end(1, commits=False)
    end(2, commits=True)
    await partition.flush()
    page = (await client.get(PATH)).json()
    assert [each["value"] for each in page["messages"]] == ["committed"]
    assert (page["next_offset"], page["at_end"]) == (4, True)
