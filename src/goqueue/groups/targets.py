"""From a change in a consumer group to its next target.

A change of members, subscriptions or topics bumps the group epoch.  The target is computed at once
in small groups; in large ones at most once an interval, so that a fleet of thousands that starts
together is not divided thousands of times.
"""

from collections import Counter
from collections.abc import Iterable

from goqueue.groups.assignors import DEFAULT_ASSIGNOR, Subscriber, assign
from goqueue.groups.consumer import ConsumerGroup
from goqueue.groups.context import Desk
from goqueue.groups.errors import InvalidRegularExpression
from goqueue.groups.partition_sets import NO_PARTITIONS, PartitionSet
from goqueue.groups.pending_change import Draft
from goqueue.groups.records import EpochBumped, Wish
from goqueue.groups.timers import Timer, TimerKind
from goqueue.groups.topics import TopicFacts, TopicsView
from goqueue.model.ids import Timestamp, TopicId, TopicName


def retarget(desk: Desk, draft: Draft, now: Timestamp, reason: str) -> None:
    """Bump the epoch and see to it that a target for it is set."""
    group = draft.consumer
    topics = Wishes(desk.topics, group.wishes).topics()
    draft.write(EpochBumped(draft.group_id, group.epoch + 1, topics, now))
    desk.statistics.rebalance_started(draft.group_id, reason, now)
    if group.is_empty:
        desk.check_offsets_later(draft.group_id, now)
    due = _target_due(desk, group, now)
    if due > now:
        desk.timers.set(Timer(TimerKind.TARGET, draft.group_id), due)
    else:
        set_target(desk, draft, now)


def _target_due(desk: Desk, group: ConsumerGroup, now: Timestamp) -> Timestamp:
    if len(group.members) < desk.pace.large_group_members:
        return now
    last = desk.target_set_at.get(group.group_id)
    return now if last is None else Timestamp(last + desk.pace.interval_ms)


def on_target_deadline(desk: Desk, draft: Draft, now: Timestamp) -> None:
    """Set the target that was put off, or make up for topics that changed unwritten."""
    if not isinstance(draft.group, ConsumerGroup):
        return
    if draft.group.epoch > draft.group.target_epoch:
        set_target(desk, draft, now)
    elif topics_differ(desk, draft.group):
        retarget(desk, draft, now, "topics changed")


def set_target(desk: Desk, draft: Draft, now: Timestamp) -> None:
    group = draft.consumer
    wishes = Wishes(desk.topics, group.wishes)
    draft.write(group.target_set(group.epoch, *_targets(group, wishes)))
    desk.timers.clear(Timer(TimerKind.TARGET, draft.group_id))
    if len(group.members) >= desk.pace.large_group_members:
        desk.target_set_at[draft.group_id] = now
    else:
        desk.target_set_at.pop(draft.group_id, None)
    note_settled(desk, draft, now)


def note_settled(desk: Desk, draft: Draft, now: Timestamp) -> None:
    if draft.consumer.is_settled:
        desk.statistics.rebalance_finished(draft.group_id, now)


def topics_differ(desk: Desk, group: ConsumerGroup) -> bool:
    """Have the topics the group wants changed since its epoch?"""
    return Wishes(desk.topics, group.wishes).topics() != group.topics


def _targets(group: ConsumerGroup, wishes: "Wishes") -> tuple[str, dict[str, PartitionSet]]:
    name = preferred_assignor(group)
    members = [
        Subscriber(
            member_id=member.member_id,
            topics=wishes.ids(member.wish),
            had=group.targets.get(member.member_id, NO_PARTITIONS),
            instance_id=member.instance_id,
        )
        for member in group.members.values()
    ]
    counts = {topic.topic_id: topic.partition_count for topic in wishes.topics()}
    return name, assign(name, members, counts)


def preferred_assignor(group: ConsumerGroup) -> str:
    """The one most members ask for; the default when nobody does.  Ties go by name."""
    votes = Counter(member.assignor for member in group.members.values() if member.assignor)
    if not votes:
        return DEFAULT_ASSIGNOR
    return max(sorted(votes), key=lambda name: votes[name])


class Wishes:
    """What members want, resolved against the topics there are; each wish once."""

    def __init__(self, view: TopicsView, wishes: Iterable[Wish]) -> None:
        self._view = view
        self._matches: dict[str, frozenset[TopicName]] = {}
        self._resolved = {wish: self._resolve(wish) for wish in wishes}
        self._ids = {
            wish: frozenset(topic.topic_id for topic in topics)
            for wish, topics in self._resolved.items()
        }

    def topics(self) -> tuple[TopicFacts, ...]:
        """All that anybody wants, by name."""
        wanted = {topic.name: topic for topics in self._resolved.values() for topic in topics}
        return tuple(wanted[name] for name in sorted(wanted))

    def ids(self, wish: Wish) -> frozenset[TopicId]:
        """The existing topics of one wish."""
        return self._ids[wish]

    def _resolve(self, wish: Wish) -> list[TopicFacts]:
        found = map(self._view.named, {*wish.names, *self._matching(wish.regex)})
        return [topic for topic in found if topic is not None]

    def _matching(self, regex: str | None) -> frozenset[TopicName]:
        if not regex:
            return frozenset()
        if regex not in self._matches:
            try:
                self._matches[regex] = frozenset(self._view.matching(regex))
            except InvalidRegularExpression:  # was checked at join; this view thinks otherwise
                self._matches[regex] = frozenset()
        return self._matches[regex]
