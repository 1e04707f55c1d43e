from typing import Any

import pytest

from goqueue.trace.events import Space, Step, TraceEvent
from goqueue.trace.ids import TraceParent
from goqueue.trace.journeys import FIRST_COMMIT, Journey, assemble, refusal
from tests.unit.trace.trace_events import DEAD, at, event

PUBLISHED = event(100, Step.PUBLISHED, 0, 9, validated_us=10, duration_us=50, client="shop")


def journey(*events: TraceEvent, places: Any = (), parent: TraceParent | None = None) -> Journey:
    return assemble(at(3), "orders", events, places, parent)


def names(found: Journey) -> list[str]:
    return [step.event for step in found.steps]


def test_a_publish_is_three_steps():
    found = journey(PUBLISHED)
    assert names(found) == ["publish.received", "publish.validated", "publish.persisted"]
    assert [step.time_us for step in found.steps] == [100, 110, 150]
    assert (found.status, found.start_us, found.end_us) == ("pending", 100, 150)
    assert len({step.span_id for step in found.steps}) == 3


def test_what_happened_to_others_is_not_told():
    others = event(200, Step.ACKED, 4, 9, group="g"), event(200, Step.FETCHED, 3, partition=1)
    assert names(journey(PUBLISHED, *others)) == names(journey(PUBLISHED))


def test_the_same_event_from_two_places_is_told_once():
    assert len(journey(PUBLISHED, PUBLISHED).steps) == 3


def test_a_publish_that_is_persisted_after_it_was_noted_is_whole():
    early = event(100, Step.PUBLISHED, 0, 9, validated_us=10)
    later = event(170, Step.PUBLISH_PERSISTED, 0, 9)
    assert names(journey(early, later)) == names(journey(PUBLISHED))
    whole = event(100, Step.PUBLISHED, 0, 9, validated_us=10, duration_us=70)
    assert names(journey(whole, later)) == names(journey(PUBLISHED))


@pytest.mark.parametrize(
    ("steps", "status"),
    [
        ([Step.FETCHED], "pending"),
        ([Step.FETCHED, Step.ACKED], "completed"),
        ([Step.FETCHED, Step.NACKED, Step.RETRY_SCHEDULED], "retrying"),
        ([Step.FETCHED, Step.VISIBILITY_TIMEOUT], "retrying"),
        ([Step.FETCHED, Step.VISIBILITY_TIMEOUT, Step.FETCHED], "pending"),
        ([Step.FETCHED, Step.REJECTED, Step.DLQ_ROUTED], "error"),
        ([Step.EXPIRED], "expired"),
    ],
)
def test_status_of_a_group(steps: list[Step], status: str):
    events = [event(200 + n, step, 3, group="g") for n, step in enumerate(steps)]
    found = journey(PUBLISHED, *events)
    assert (found.status, found.groups) == (status, {"g": status})


@pytest.mark.parametrize(
    ("step", "status"),
    [
        (Step.TXN_ABORTED, "error"),
        (Step.TXN_COMMITTED, "pending"),
        (Step.DELAY_SCHEDULED, "delayed"),
        (Step.DELAY_CANCELLED, "completed"),
    ],
)
def test_status_whatever_groups_do(step: Step, status: str):
    assert journey(PUBLISHED, event(200, step, 0, 9)).status == status


def test_the_worst_of_several_groups_counts():
    acked = event(200, Step.ACKED, 3, group="a")
    nacked = event(201, Step.NACKED, 3, group="b")
    assert journey(PUBLISHED, acked, nacked).status == "retrying"


def test_a_reader_without_a_group_completes_it():
    assert journey(PUBLISHED, event(200, Step.FETCHED, 0, 9, client="tail")).status == "completed"


def test_a_group_that_aborts_its_acks_still_has_the_message():
    fetched = event(200, Step.FETCHED, 3, group="g")
    aborted = event(210, Step.TXN_ABORTED, 3, group="g")
    assert journey(PUBLISHED, fetched, aborted).status == "pending"


def test_a_kafka_fetch_gets_the_group_of_its_clients_commits():
    fetched = event(200, Step.FETCHED, 0, 9, client="app", address="10.0.0.1:4000")
    acked = event(300, Step.ACKED, 0, 9, group="g", client="app", address="10.0.0.1:5000")
    stranger = event(250, Step.FETCHED, 0, 9, client="other", address="10.0.0.2:4000")
    found = journey(PUBLISHED, fetched, stranger, acked)
    assert [step.group for step in found.steps if step.event == "consume.fetched"] == ["g", ""]


def test_clients_of_one_name_in_two_groups_are_not_told_apart():
    who = {"client": "app", "address": "10.0.0.1:4000"}
    fetched = event(200, Step.FETCHED, 0, 9, **who)
    acks = [event(300, Step.ACKED, 0, 9, group=group, **who) for group in "ab"]
    found = journey(PUBLISHED, fetched, *acks)
    assert [step.group for step in found.steps if step.event == "consume.fetched"] == [""]


def test_a_first_commit_says_nothing_of_what_was_never_read():
    who = {"client": "app", "address": "10.0.0.1:4000"}
    first = event(300, Step.ACKED, 0, 9, group="g", detail=FIRST_COMMIT, **who)
    assert journey(PUBLISHED, first).groups == {}
    assert journey(PUBLISHED, event(200, Step.FETCHED, 0, 9, **who), first).groups == {
        "g": "completed"
    }


def test_a_redriven_message_begins_again():
    fetched = event(200, Step.FETCHED, 3, group="g")
    link: dict[str, Any] = {"link_topic_id": DEAD, "link_partition": 0, "link_first": 0}
    routed = event(210, Step.DLQ_ROUTED, 3, group="g", **link)
    redriven = event(220, Step.DLQ_REDRIVEN, 0, topic_id=DEAD)
    acked = event(240, Step.ACKED, 12, group="g")
    found = journey(PUBLISHED, fetched, routed, redriven, acked, places=[at(0, DEAD), at(12)])
    assert names(found)[3:] == ["consume.fetched", "dlq.routed", "dlq.redriven", "consume.acked"]
    assert found.status == "completed"
    assert (found.steps[4].link_topic, found.steps[4].link_offset) == ("", 0)
    assert found.steps[-1].offset == 12


def test_context_is_told_while_the_message_is_on_its_way():
    fetched = event(200, Step.FETCHED, 3, group="g")
    around = event(180, Step.LEADER_CHANGED, 0, 2**63 - 1)
    rebalance = event(190, Step.GROUP_REBALANCED, -1, group="g")
    later = event(201, Step.LEADER_CHANGED, 0, 2**63 - 1)
    other = event(190, Step.GROUP_REBALANCED, -1, group="other")
    found = journey(PUBLISHED, fetched, around, rebalance, later, other)
    assert names(found)[3:] == ["leader.changed", "group.rebalanced", "consume.fetched"]
    assert found.status == "pending"


def test_a_delayed_message_has_both_of_its_places():
    waits = at(1, space=Space.DELAYS)
    scheduled = event(110, Step.DELAY_SCHEDULED, 1, space=Space.DELAYS, until_ms=5)
    ready = event(500, Step.DELAY_READY, 1, space=Space.DELAYS)
    found = assemble(at(3), "orders", [scheduled, ready], [waits])
    assert names(found) == ["delay.scheduled", "delay.ready"]
    assert found.status == "pending"
    assert assemble(waits, "orders", [scheduled]).status == "delayed"


def test_the_producers_trace_is_continued():
    found = journey(PUBLISHED, parent=TraceParent("4b" * 16, "00f067aa0ba902b7", True))
    assert (found.trace_id, found.parent_span_id) == ("4b" * 16, "00f067aa0ba902b7")


def test_a_refused_message_has_a_journey_of_one_step():
    found = refusal(event(5, Step.PUBLISH_REJECTED, -1, error="too large"))
    assert (names(found), found.status, found.offset) == (["publish.rejected"], "error", -1)


def test_with_followers_the_leader_s_disk_and_the_replicas_are_two_steps():
    facts = {"synced_us": 20, "duration_us": 70, "detail": "on nodes 1, 2"}
    whole = event(100, Step.PUBLISHED, 0, 9, validated_us=10, **facts)
    early = event(100, Step.PUBLISHED, 0, 9, validated_us=10)
    later = event(170, Step.PUBLISH_PERSISTED, 0, 9, **facts)
    for found in (journey(whole), journey(early, later), journey(whole, later)):
        assert [(step.event, step.time_us, step.detail) for step in found.steps] == [
            ("publish.received", 100, ""),
            ("publish.validated", 110, ""),
            ("publish.persisted", 120, "on node 1"),
            ("publish.replicated", 170, "on nodes 1, 2"),
        ]
        assert found.status == "pending"
