"""One group: its settings, its room, its totals."""

import msgspec
import pytest

from goqueue.model.ids import GroupId, TopicName
from goqueue.queue import QueueSettings
from goqueue.queue.group import QueueGroup
from tests.unit.queue.harness import GROUP, TOPIC


@pytest.mark.parametrize(
    ("ann", "bob", "expected"),
    [(0, 0, 3), (1, 0, 2), (3, 0, 0), (4, 0, -1), (0, 4, 1), (1, 5, -1)],
)
def test_a_consumer_has_room_up_to_its_own_limit_and_the_groups(ann: int, bob: int, expected: int):
    settings = QueueSettings(max_in_flight_consumer=3, max_in_flight_group=5)
    group = QueueGroup(GROUP, lambda _: settings)
    group.book.add("ann", ann)
    group.book.add("bob", bob)
    assert group.room("ann") == expected


def test_settings_are_asked_for_whenever_they_are_needed():
    kept: dict[GroupId, QueueSettings] = {GROUP: QueueSettings()}
    group = QueueGroup(GROUP, kept.__getitem__)
    kept[GROUP] = msgspec.structs.replace(kept[GROUP], max_in_flight_consumer=9)
    assert group.room("ann") == 9


def test_totals_are_counted_by_topic():
    group = QueueGroup(GROUP, lambda _: QueueSettings())
    group.totals_in(TOPIC).acked += 2
    group.totals_in(TopicName("bills")).acked += 3
    assert group.totals_in(TOPIC).acked == 2
    assert group.totals.acked == 5
