"""Settings of one group: sessions and heartbeats of the consumer protocol."""

import pytest

from goqueue.groups import UNSET, GroupsConfig, GroupSettings
from goqueue.groups.records import GroupConfigured
from goqueue.model.errors import InvalidSetting
from tests.unit.groups.harness import GROUP, ClassicClient, ConsumerClient, Host, topic

ORDERS = topic("orders", 2)
CONFIG = GroupsConfig(initial_rebalance_delay_ms=0)


@pytest.fixture
def host() -> Host:
    return Host(CONFIG, ORDERS)


def configure(host: Host, settings: GroupSettings) -> None:
    host.settings[GROUP] = settings


def test_a_group_has_a_session_of_its_own_also_after_a_restart(host: Host) -> None:
    configure(host, GroupSettings(session_timeout_ms=90_000))
    member = ConsumerClient(host)
    member.heartbeat()
    host.advance(89_999)
    assert host.group().members
    host.restart()
    host.advance(0)
    host.advance(89_999)
    assert host.group().members, "a session begins anew at a restart"
    host.advance(1)
    assert not host.group().members


def test_a_changed_session_counts_from_the_next_heartbeat(host: Host) -> None:
    member = ConsumerClient(host)
    member.heartbeat()
    configure(host, GroupSettings(session_timeout_ms=10_000))
    member.heartbeat()
    host.advance(10_000)
    assert not host.group().members


def test_members_that_name_a_session_keep_it(host: Host) -> None:
    configure(host, GroupSettings(session_timeout_ms=6_000))
    classic, modern = ClassicClient(host), ConsumerClient(host)
    classic.join()
    classic.sync({classic: {"orders": [0, 1]}})
    modern.heartbeat()
    host.advance(9_999)
    described = host.run(host.machine.describe(GROUP))
    assert [member.member_id for member in described.members] == [classic.member_id]


def test_members_are_told_the_groups_heartbeat_interval(host: Host) -> None:
    member = ConsumerClient(host)
    assert member.heartbeat().heartbeat_interval_ms == CONFIG.heartbeat_interval_ms_min
    configure(host, GroupSettings(heartbeat_interval_ms=7_000))
    assert member.heartbeat().heartbeat_interval_ms == 7_000
    configure(host, UNSET)
    assert member.heartbeat().heartbeat_interval_ms == CONFIG.heartbeat_interval_ms_min


def test_settings_of_a_log_that_kept_them_are_there_until_they_are_taken_over(host: Host) -> None:
    for settings in (GroupSettings(45_000), GroupSettings(60_000, 5_000)):
        host.log.append(host.machine.encode(GroupConfigured(GROUP, settings)))
    host.restart()
    host.log = [host.machine.encode(record) for record in host.machine.snapshot()]
    host.restart()
    assert host.machine.take_former_settings() == {GROUP: GroupSettings(60_000, 5_000)}
    assert host.machine.take_former_settings() == {}
    assert not list(host.machine.snapshot())


@pytest.mark.parametrize(
    "settings",
    [
        GroupSettings(session_timeout_ms=5_999),
        GroupSettings(session_timeout_ms=1_800_001),
        GroupSettings(heartbeat_interval_ms=299),
        GroupSettings(heartbeat_interval_ms=30_000),
        GroupSettings(session_timeout_ms=6_000, heartbeat_interval_ms=6_000),
    ],
)
def test_what_cannot_work_is_refused(settings: GroupSettings) -> None:
    with pytest.raises(InvalidSetting):
        settings.check(CONFIG)
