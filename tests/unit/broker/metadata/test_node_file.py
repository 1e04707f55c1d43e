"""Whose a data directory is, and how often it was started."""

import msgspec
import pytest

from goqueue.broker.metadata.node_file import claim
from goqueue.model.config import ClusterConfig
from goqueue.model.errors import WrongDataDirectory
from goqueue.testing.sim import SimDisk, SimRandom
from tests.unit.broker.brokers import CONFIG

ON_ETCD = msgspec.structs.replace(CONFIG, cluster=ClusterConfig("etcd://127.0.0.1:2379"))


def empty_disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory(CONFIG.data_dir)
    return disk


def test_incarnations_are_counted_and_the_directory_keeps_its_id():
    disk, random = empty_disk(), SimRandom(0)
    found = []
    for _ in range(3):
        found.append(claim(disk, random, CONFIG))
        disk = disk.crash()
    assert [each.incarnation for each in found] == [1, 2, 3]
    assert len({each.directory_id for each in found}) == 1
    assert claim(empty_disk(), random, CONFIG).directory_id != found[0].directory_id


def test_full_disk_does_not_keep_a_node_from_starting():
    disk = empty_disk()
    claim(disk, SimRandom(0), CONFIG)
    disk.fill_up(0)
    assert claim(disk, SimRandom(0), CONFIG).incarnation == 2


def test_directory_of_another_node_is_refused():
    disk = empty_disk()
    claim(disk, SimRandom(0), CONFIG)
    other = msgspec.structs.replace(CONFIG, node_id=2)
    with pytest.raises(WrongDataDirectory, match="belongs to node 1"):
        claim(disk, SimRandom(0), other)


@pytest.mark.parametrize(("first", "second"), [(CONFIG, ON_ETCD), (ON_ETCD, CONFIG)])
def test_metadata_does_not_move_to_another_quorum(first, second):
    disk = empty_disk()
    claim(disk, SimRandom(0), first)
    with pytest.raises(WrongDataDirectory, match="cannot be moved"):
        claim(disk, SimRandom(0), second)


def test_directory_of_an_earlier_version_has_its_metadata_itself():
    disk = SimDisk()
    disk.make_directory("/data/logs/__metadata/0")
    with pytest.raises(WrongDataDirectory, match="cannot be moved"):
        claim(disk, SimRandom(0), ON_ETCD)
    assert claim(disk, SimRandom(0), CONFIG).quorum == "local"
