"""Which copies between nodes are slowed down."""

from uuid import UUID

import pytest

from goqueue.cluster.metadata import ConfigChanged, Metadata, SettingsChanged, TopicCreated
from goqueue.cluster.metadata.records import PartitionState
from goqueue.cluster.throttles import (
    FOLLOWER_RATE,
    LEADER_RATE,
    REASSIGNMENT_RATE,
    Copy,
    Side,
    Throttle,
    check_broker_setting,
    find_copy,
)
from goqueue.model.errors import InvalidRequest, InvalidSetting
from goqueue.model.ids import NodeId, Timestamp, TopicId, TopicName

TOPIC = TopicId(UUID(int=1))
ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def metadata_with(settings: dict[str, str], **rates: dict[str, str]) -> Metadata:
    """A partition that node 1 leads, that node 2 is in sync with, and that gets to node 3."""
    metadata = Metadata({}, 100)
    state = PartitionState((ONE, TWO, THREE), (ONE, TWO), ONE, adding=(THREE,))
    metadata.apply(TopicCreated(TOPIC, TopicName("t"), 1, {}, Timestamp(0), (state,)))
    metadata.apply(SettingsChanged(TOPIC, settings))
    for name, configs in rates.items():
        metadata.apply(ConfigChanged("broker", name.strip("_n"), configs))
    return metadata


def test_a_replica_that_is_added_has_the_rate_of_moves_at_both_ends():
    metadata = metadata_with({}, n={REASSIGNMENT_RATE: "7"})
    sides: tuple[Side, Side] = ("leader", "follower")
    for side in sides:
        found = find_copy(metadata, "t", 0, THREE, side)
        assert found == Copy(True, Throttle(REASSIGNMENT_RATE, 7))
        assert find_copy(metadata, "t", 0, TWO, side) == Copy()


def test_kafkas_rates_are_of_the_listed_replicas_and_go_first():
    settings = {
        "leader.replication.throttled.replicas": "0:1",
        "follower.replication.throttled.replicas": "*",
    }
    common = {REASSIGNMENT_RATE: "7", LEADER_RATE: "10", FOLLOWER_RATE: "20"}
    metadata = metadata_with(settings, n=common, n3={FOLLOWER_RATE: "30"})
    assert find_copy(metadata, "t", 0, THREE, "leader").throttle == Throttle(LEADER_RATE, 10)
    assert find_copy(metadata, "t", 0, THREE, "follower").throttle == Throttle(FOLLOWER_RATE, 30)


def test_a_listed_replica_without_a_rate_is_not_slowed_down():
    metadata = metadata_with({"leader.replication.throttled.replicas": "*"})
    assert find_copy(metadata, "t", 0, THREE, "leader") == Copy(True)
    assert find_copy(metadata, "missing", 0, THREE, "leader") == Copy()


@pytest.mark.parametrize(("name", "text"), [(LEADER_RATE, "-1"), (LEADER_RATE, "x"), ("a", "1")])
def test_settings_of_nodes_are_checked(name: str, text: str):
    with pytest.raises(InvalidSetting if name == LEADER_RATE else InvalidRequest):
        check_broker_setting(name, text)
