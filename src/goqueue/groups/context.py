"""What the verbs of all protocols share.

`groups`, `settings` and `offsets` are the durable state and change by `apply` alone.  Beside them
stands what a restart may forget: deadlines, parked callers, counters, the newest view of the
topics.
"""

from goqueue.groups.config import AssignmentPace, GroupsConfig
from goqueue.groups.errors import InvalidGroupRequest
from goqueue.groups.offsets import OffsetStore
from goqueue.groups.parked_requests import GroupWaiters, ParkedRequest, ParkedRequests, Waiting
from goqueue.groups.pending_change import Group, PendingChange
from goqueue.groups.replies import Parked, Token
from goqueue.groups.settings import UNSET, GroupSettings
from goqueue.groups.statistics import Statistics
from goqueue.groups.timers import Timer, TimerKind, Timers
from goqueue.groups.topics import TopicsView
from goqueue.model.ids import GroupId, Timestamp


class CoordinatorContext:
    def __init__(self, config: GroupsConfig, topics: TopicsView, pace: AssignmentPace) -> None:
        self.config = config
        self.pace = pace
        self.topics = topics
        self.groups: dict[GroupId, Group] = {}
        self.settings: dict[GroupId, GroupSettings] = {}  # of groups for which something is set
        self.offsets = OffsetStore()
        self.timers = Timers()
        self.parked_requests = ParkedRequests()
        self.statistics = Statistics()
        self.target_set_at: dict[GroupId, Timestamp] = {}  # of large groups

    def begin_change(self, group_id: GroupId) -> PendingChange:
        return PendingChange(self.groups, group_id)

    def settings_of(self, group_id: GroupId) -> GroupSettings:
        return self.settings.get(group_id, UNSET)

    def waiters(self, group_id: GroupId) -> GroupWaiters:
        return self.parked_requests.waiters(group_id)

    def peek_waiters(self, group_id: GroupId) -> GroupWaiters:
        return self.parked_requests.peek_waiters(group_id)

    def park(self, group_id: GroupId, member_id: str, waiting: Waiting) -> Parked:
        """Let the member wait; its session does not run meanwhile."""
        self.timers.clear(Timer(TimerKind.SESSION, group_id, member_id))
        return Parked(self.parked_requests.park(ParkedRequest(group_id, member_id, waiting)))

    def restart_session(
        self, group_id: GroupId, member_id: str, timeout_ms: int, now: Timestamp
    ) -> None:
        """The member gave a sign of life."""
        self.timers.set(Timer(TimerKind.SESSION, group_id, member_id), Timestamp(now + timeout_ms))

    def check_member_bytes(self, size: int) -> None:
        """Refuse a member that says too much of itself: all of it is kept, and written."""
        most = self.config.member_metadata_bytes_max
        if size > most:
            raise InvalidGroupRequest(
                f"{size} bytes about one member, {most} allowed"
                " (setting groups.member_metadata_bytes_max)"
            )

    def check_offsets_later(self, group_id: GroupId, now: Timestamp) -> None:
        """See to it that the group will be looked at for offsets to expire."""
        timer = Timer(TimerKind.OFFSETS, group_id)
        if timer not in self.timers:
            self.timers.set(timer, Timestamp(now + self.config.offset_check_interval_ms))

    def drop(self, group_id: GroupId) -> None:
        """The group is gone: so is what stood beside it."""
        self.timers.clear(Timer(TimerKind.OFFSETS, group_id))
        self.timers.clear(Timer(TimerKind.TARGET, group_id))
        self.target_set_at.pop(group_id, None)
        self.statistics.forget(group_id)
        self.parked_requests.sweep(group_id)

    def forget(self) -> list[Token]:
        """Drop deadlines and parked callers, as a restart would; the callers' tokens."""
        self.timers = Timers()
        self.target_set_at.clear()
        return self.parked_requests.clear()
