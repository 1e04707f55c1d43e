from goqueue.broker.traces.group_events import GroupEvents
from goqueue.cluster import Topic
from goqueue.groups import CommittedOffset, OffsetsCommitted
from goqueue.groups.commits import CommitRequest, OffsetToCommit
from goqueue.model.ids import GroupId, Offset, TopicName
from goqueue.trace.events import Step, TraceEvent
from tests.unit.broker.traces.trace_world import Bench, ask_as, play, ring


def acks(bench: Bench) -> list[TraceEvent]:
    return [each for each in ring(bench) if each.step == Step.ACKED]


async def commit(bench: Bench, offset: int, metadata: str = "") -> None:
    wanted = OffsetToCommit(TopicName("jobs"), 0, Offset(offset), metadata=metadata)
    request = CommitRequest(group_id=GroupId("readers"), offsets=(wanted,))
    (result,) = await bench.broker.groups.commit(request)
    assert result.error is None


def test_a_committed_offset_acks_all_before_it():
    async def story(bench: Bench) -> None:
        ask_as("app")
        await commit(bench, 10)
        await commit(bench, 10)
        await commit(bench, 25)
        await commit(bench, 20)  # back: nothing is acked by that
        assert [(each.first, each.last, each.detail) for each in acks(bench)] == [
            (0, 9, "first commit"),
            (10, 24, ""),
        ]
        assert {(each.group, each.client) for each in acks(bench)} == {("readers", "app")}

    play(story)


def test_what_queues_commit_of_their_acks_is_told_by_their_ledgers():
    async def story(bench: Bench) -> None:
        await commit(bench, 10, metadata="mark")
        events = GroupEvents(bench.broker.recorder, bench.broker.topic, "mark")
        machine = bench.broker.groups.host.ahead
        before = len(acks(bench))
        for metadata in ("mark", ""):
            offset = CommittedOffset(TopicName("jobs"), 0, Offset(15), metadata=metadata)
            events.observe(machine, [OffsetsCommitted(GroupId("readers"), (offset,))])
        assert len(acks(bench)) == before + 1

    play(story)


def test_commits_of_a_topic_that_is_gone_are_nothing():
    async def story(bench: Bench) -> None:
        def find(_: str) -> Topic | None:
            return None

        events = GroupEvents(bench.broker.recorder, find, "mark")
        offset = CommittedOffset(TopicName("gone"), 0, Offset(5))
        record = OffsetsCommitted(GroupId("readers"), (offset,))
        events.observe(bench.broker.groups.host.ahead, [record])
        assert not acks(bench)

    play(story)
