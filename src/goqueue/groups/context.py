"""The state of the coordinator, which the requests of all protocols share.

`groups`, `shares` and `offsets` are durable and change by `apply` alone.  What is set for a group
is durable elsewhere: `settings_of` knows it.  The rest is in memory only, and a restart may forget
it: deadlines, parked requests, polls, counters, the newest view of the topics.
"""

from collections import Counter

from goqueue.groups.classic import ClassicGroup
from goqueue.groups.config import AssignmentPace, GroupsConfig
from goqueue.groups.consumer import ConsumerGroup
from goqueue.groups.errors import InvalidGroupRequest
from goqueue.groups.offsets import OffsetStore
from goqueue.groups.parked_requests import ParkedRequests
from goqueue.groups.replies import Assignment, Token
from goqueue.groups.settings import SettingsOf
from goqueue.groups.share import ShareGroup
from goqueue.groups.statistics import Statistics
from goqueue.groups.timers import Timer, TimerKind, Timers
from goqueue.groups.topics import TopicsView
from goqueue.model.ids import GroupId, Timestamp

Group = ClassicGroup | ConsumerGroup


class CoordinatorContext:
    def __init__(
        self,
        config: GroupsConfig,
        topics: TopicsView,
        pace: AssignmentPace,
        settings_of: SettingsOf,
        share_settings_of: SettingsOf,
    ) -> None:
        self.config = config
        self.pace = pace
        self.topics = topics
        self.settings_of = settings_of
        self.share_settings_of = share_settings_of
        self.groups: dict[GroupId, Group] = {}
        self.shares: dict[GroupId, ShareGroup] = {}  # a name may be in both, with members in one
        self.share_assignments: dict[tuple[GroupId, str], Assignment] = {}  # as members were told
        self.share_polls: Counter[tuple[GroupId, str]] = Counter()  # under way, by member
        self.offsets = OffsetStore()
        self.timers = Timers()
        self.parked_requests = ParkedRequests()
        self.statistics = Statistics()
        self.target_set_at: dict[GroupId, Timestamp] = {}  # of large groups

    def check_member_bytes(self, size: int) -> None:
        """Refuse a member whose metadata is too large: all of it is kept in memory and on disk."""
        most = self.config.member_metadata_bytes_max
        if size > most:
            raise InvalidGroupRequest(
                f"{size} bytes about one member, {most} allowed"
                " (setting groups.member_metadata_bytes_max)"
            )

    def check_offsets_later(self, group_id: GroupId, now: Timestamp) -> None:
        """Schedule the next look for expired offsets of the group."""
        timer = Timer(TimerKind.OFFSETS, group_id)
        if timer not in self.timers:
            self.timers.set(timer, Timestamp(now + self.config.offset_check_interval_ms))

    def drop(self, group_id: GroupId) -> None:
        """Drop what is kept in memory of a group that is gone."""
        self.timers.clear(Timer(TimerKind.OFFSETS, group_id))
        self.timers.clear(Timer(TimerKind.TARGET, group_id))
        self.target_set_at.pop(group_id, None)
        self.statistics.forget(group_id)
        self.parked_requests.sweep(group_id)

    def forget(self) -> list[Token]:
        """Drop deadlines and parked requests, as a restart would; the tokens of the requests."""
        self.timers = Timers()
        self.target_set_at.clear()
        self.share_assignments.clear()
        return self.parked_requests.clear()
