"""What a leader tells its followers, and what it takes from them."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

from kio.schema.errors import ErrorCode

from goqueue.broker import Broker, Partition
from goqueue.cluster.replication import Leader, Offline
from goqueue.model.errors import TopicIdNotFound
from goqueue.model.ids import Epoch, NodeId, Offset
from goqueue.server.kafka.replica_sessions import SESSIONS_MAX, ReplicaSessions
from goqueue.testing.sim import SimDisk, SimLoop
from goqueue.wire.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from goqueue.wire.replica_fetch import ReplicaFetchResponse, decode_replica_fetch
from tests.unit.broker.replicas.replicas import (
    FOLLOWER,
    LEADER,
    TOPIC,
    leader_role,
    open_partition,
    sim_clock,
    write,
)
from tests.unit.server.kafka.asking import fetch, produce

NOBODY = UUID(int=99)


class Leading:
    """A node that leads three partitions, and is asked by hand."""

    def __init__(self) -> None:
        disk = SimDisk()
        self.partitions = [open_partition(disk, leader_role(), index) for index in range(3)]
        self.acks: list[Partition] = []
        self.sessions = ReplicaSessions(sim_clock(), 1 << 20, self._find, self.acks.append)
        self.number = 0

    async def _find(self, topic_id: UUID, index: int) -> Partition:
        if topic_id != TOPIC:
            raise TopicIdNotFound(f"no topic {topic_id}")
        return self.partitions[index]

    async def ask(
        self,
        *wanted: FetchPartition,
        session: tuple[int, int] = (0, 0),
        wait_ms: int = 1000,
        node: int = FOLLOWER,
        topic: UUID = TOPIC,
        number: int | None = None,
        forgotten: tuple[int, ...] = (),
        interrupted: int = 0,
        bytes_max: int = 1 << 20,
    ) -> ReplicaFetchResponse:
        self.number += 1
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=bytes_max,
            isolation_level=0,
            session_id=session[0],
            session_epoch=session[1],
            topics=[FetchTopic(topic, list(wanted))] if wanted else [],
            forgotten=[ForgottenTopic(TOPIC, list(forgotten))] if forgotten else [],
            replica_id=node,
            replica_epoch=1,
            fetch_number=self.number if number is None else number,
            interrupted=interrupted,
        )
        body = b"".join(await self.sessions.fetch(request))
        return decode_replica_fetch(memoryview(body))


def want(
    offset: int = 0,
    *,
    index: int = 0,
    epoch: int = 1,
    last: int = -1,
    watermark: int = 0,
    bytes_max: int = 1 << 20,
) -> FetchPartition:
    return FetchPartition(index, epoch, offset, last, 0, bytes_max, watermark)


def results(response: ReplicaFetchResponse) -> list[FetchPartitionResponse]:
    return [result for topic in response.topics for result in topic.partitions]


def tell(story: Callable[[Leading], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(Leading())

    loop = SimLoop(0)
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def elapsed() -> float:
    return asyncio.get_running_loop().time()


# --- what a follower gets -----------------------------------------------------------------------


def test_it_gets_what_is_not_synced_yet():
    async def story(leading: Leading) -> None:
        write(leading.partitions[0], "a", "b")
        assert leading.partitions[0].log.synced_offset == 0
        [result] = results(await leading.ask(want()))
        assert result.records
        assert (result.high_watermark, result.log_start_offset) == (0, 0)

    tell(story)


def test_who_has_no_room_gets_no_records_and_that_is_told():
    async def story(leading: Leading) -> None:
        partition = leading.partitions[0]
        write(partition, "a")
        [result] = results(await leading.ask(want(bytes_max=0)))
        assert not result.records
        assert leading.acks == [partition], "its ISR is looked at"
        assert results(await leading.ask(want(bytes_max=0), session=(1, 1), wait_ms=10)) == []
        [result] = results(await leading.ask(want(), session=(1, 2)))
        assert result.records

    tell(story)


def test_to_ask_is_to_acknowledge():
    async def story(leading: Leading) -> None:
        partition = leading.partitions[0]
        committed = partition.wait_committed(write(partition, "a"))
        await leading.ask(want())
        await partition.flush()
        assert not committed.done()
        await leading.ask(want(1, last=1))
        await committed

    tell(story)


def test_who_waits_is_woken_by_an_append():
    async def story(leading: Leading) -> None:
        first = await leading.ask(want())
        waiting = asyncio.ensure_future(leading.ask(session=(first.session_id, 1)))
        await asyncio.sleep(0.1)
        write(leading.partitions[0], "a")
        [result] = results(await waiting)
        assert result.records
        assert elapsed() < 0.2

    tell(story)


def test_who_has_all_is_told_of_a_higher_watermark_at_once():
    async def story(leading: Leading) -> None:
        partition = leading.partitions[0]
        write(partition, "a")
        first = await leading.ask(want())
        await partition.flush()
        [result] = results(await leading.ask(want(1, last=1), session=(first.session_id, 1)))
        assert (result.records, result.high_watermark) == (b"", 1)
        began = elapsed()
        asked = leading.ask(want(1, last=1, watermark=1), session=(first.session_id, 2))
        assert results(await asked) == []
        assert elapsed() - began >= 1.0

    tell(story)


def test_a_new_entry_is_answered_though_there_is_nothing_to_copy():
    async def story(leading: Leading) -> None:
        [result] = results(await leading.ask(want()))
        assert (result.error_code, result.records) == (0, b"")
        assert elapsed() < 0.1

    tell(story)


def test_only_partitions_with_news_are_in_the_answer():
    async def story(leading: Leading) -> None:
        first = await leading.ask(*(want(index=index) for index in range(3)))
        assert len(results(first)) == 3
        write(leading.partitions[1], "a")
        answer = await leading.ask(session=(first.session_id, 1))
        assert [result.partition for result in results(answer)] == [1]

    tell(story)


def test_what_does_not_fit_comes_with_the_next_answer():
    async def story(leading: Leading) -> None:
        for partition in leading.partitions:
            write(partition, "." * 600)
        wanted = [want(index=index) for index in range(3)]
        answer = await leading.ask(*wanted, bytes_max=1000)
        served = [result.partition for result in results(answer) if result.records]
        assert len(served) == 1
        while len(served) < 3:
            session = (answer.session_id, len(served))
            more = await leading.ask(session=session, bytes_max=1000, forgotten=(served[-1],))
            served += [result.partition for result in results(more) if result.records]
        assert sorted(served) == [0, 1, 2]

    tell(story)


def test_a_log_that_differs_is_told_where_and_not_counted():
    async def story(leading: Leading) -> None:
        partition = leading.partitions[0]
        committed = partition.wait_committed(write(partition, "a"))
        await partition.flush()
        [result] = results(await leading.ask(want(5, last=0)))
        assert result.diverging_epoch is not None
        assert (result.diverging_epoch.epoch, result.diverging_epoch.end_offset) == (0, 0)
        assert not result.records
        assert not committed.done()

    tell(story)


def test_the_newest_start_of_the_log_is_told():
    async def story(leading: Leading) -> None:
        partition = leading.partitions[0]
        write(partition, "a", "b")
        write(partition, "c")
        first = await leading.ask(want())
        await partition.flush()
        await leading.ask(want(3, last=1), session=(first.session_id, 1))
        waiting = asyncio.ensure_future(
            leading.ask(want(3, last=1, watermark=3), session=(first.session_id, 2))
        )
        await asyncio.sleep(0.01)
        await partition.remove_before(Offset(2))
        [result] = results(await waiting)
        assert result.log_start_offset == 2

    tell(story)


def test_an_offset_outside_the_log_is_refused_with_its_start():
    async def story(leading: Leading) -> None:
        partition = leading.partitions[0]
        [result] = results(await leading.ask(want(9)))
        assert result.error_code == ErrorCode.offset_out_of_range.value
        assert result.log_start_offset == partition.log.start_offset

    tell(story)


# --- epochs and roles ---------------------------------------------------------------------------


def test_another_epoch_is_refused():
    async def story(leading: Leading) -> None:
        [old] = results(await leading.ask(want(epoch=0)))
        [new] = results(await leading.ask(want(epoch=2)))
        assert old.error_code == ErrorCode.fenced_leader_epoch.value
        assert new.error_code == ErrorCode.unknown_leader_epoch.value

    tell(story)


def test_who_waits_hears_that_another_node_leads():
    async def story(leading: Leading) -> None:
        first = await leading.ask(want())
        waiting = asyncio.ensure_future(leading.ask(session=(first.session_id, 1)))
        await asyncio.sleep(0.1)
        leading.partitions[0].take_role(Offline("deposed", Epoch(2)))
        [result] = results(await waiting)
        assert result.error_code == ErrorCode.not_leader_or_follower.value

    tell(story)


def test_a_node_that_has_no_replica_is_refused():
    async def story(leading: Leading) -> None:
        [result] = results(await leading.ask(want(), node=5))
        assert result.error_code == ErrorCode.not_leader_or_follower.value

    tell(story)


def test_a_topic_that_is_not_known_yet_is_refused():
    async def story(leading: Leading) -> None:
        [result] = results(await leading.ask(want(), topic=NOBODY))
        assert result.error_code == ErrorCode.unknown_topic_id.value

    tell(story)


# --- what it takes from them --------------------------------------------------------------------


def test_who_asks_for_less_than_it_acknowledged_has_lost_data():
    async def story(leading: Leading) -> None:
        partition = leading.partitions[0]
        write(partition, "a", "b")
        write(partition, "c")
        await leading.ask(want(3, last=1))
        assert leading.acks == []
        await leading.ask(want(2, last=1))
        assert leading.acks == [partition]

    tell(story)


def test_a_request_that_was_overtaken_says_nothing():
    async def story(leading: Leading) -> None:
        partition = leading.partitions[0]
        write(partition, "a", "b")
        await leading.ask(want(2, last=1), number=8)
        [result] = results(await leading.ask(want(0), number=7))
        assert result.error_code == ErrorCode.not_leader_or_follower.value
        assert leading.acks == [], "no data is lost"

    tell(story)


def test_acks_of_who_is_not_in_sync_are_told():
    async def story(leading: Leading) -> None:
        partition = leading.partitions[0]
        partition.take_role(leader_role(1, isr=(LEADER,)))
        assert isinstance(partition.role, Leader)
        await leading.ask(want())
        assert leading.acks == [partition]

    tell(story)


# --- sessions -----------------------------------------------------------------------------------


def test_a_session_that_is_not_there_or_at_another_request_is_refused():
    async def story(leading: Leading) -> None:
        first = await leading.ask(want())
        unknown = await leading.ask(session=(first.session_id + 5, 1))
        assert unknown.error_code == ErrorCode.fetch_session_id_not_found.value
        skipped = await leading.ask(session=(first.session_id, 2))
        assert skipped.error_code == ErrorCode.invalid_fetch_session_epoch.value
        stranger = await leading.ask(session=(first.session_id, 1), node=3)
        assert stranger.error_code == ErrorCode.fetch_session_id_not_found.value

    tell(story)


def test_what_is_forgotten_is_not_told():
    async def story(leading: Leading) -> None:
        first = await leading.ask(want(index=0), want(index=1))
        waiting = asyncio.ensure_future(
            leading.ask(session=(first.session_id, 1), forgotten=(0,), wait_ms=500)
        )
        await asyncio.sleep(0.1)
        write(leading.partitions[0], "a")
        assert results(await waiting) == []

    tell(story)


def test_a_fetch_that_waits_can_be_interrupted():
    async def story(leading: Leading) -> None:
        first = await leading.ask(want())
        waiting = asyncio.ensure_future(leading.ask(session=(first.session_id, 1)))
        await asyncio.sleep(0.1)
        await leading.ask(session=(0, -1), wait_ms=0, interrupted=first.session_id, node=3)
        assert not waiting.done(), "not by another node"
        await leading.ask(session=(0, -1), wait_ms=0, interrupted=first.session_id)
        assert results(await waiting) == []
        assert elapsed() < 0.2

    tell(story)


def test_sessions_of_a_node_are_few_and_the_oldest_goes():
    async def story(leading: Leading) -> None:
        first = await leading.ask(want())
        for _ in range(SESSIONS_MAX):
            await leading.ask(want())
        answer = await leading.ask(session=(first.session_id, 1))
        assert answer.error_code == ErrorCode.fetch_session_id_not_found.value
        assert len(leading.partitions[0]._follower_waiters) == SESSIONS_MAX

    tell(story)


def test_a_session_that_is_begun_anew_ends_the_old_one():
    async def story(leading: Leading) -> None:
        first = await leading.ask(want())
        await leading.ask(want(), session=(first.session_id, 0))
        assert len(leading.partitions[0]._follower_waiters) == 1
        leading.sessions.close()
        assert not leading.partitions[0]._follower_waiters

    tell(story)


# --- the port of clients ------------------------------------------------------------------------


async def test_a_client_that_says_it_is_a_replica_is_refused(broker: Broker):
    await broker.create_topic("t", partitions=1)
    await produce(broker, "t")
    result = await fetch(broker, "t", replica_id=NodeId(1))
    assert result.error_code is ErrorCode.cluster_authorization_failed
    assert not result.records
    assert (await fetch(broker, "t")).records
