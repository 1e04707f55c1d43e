"""From a change in a consumer group to its next target.

A change of members, subscriptions or topics bumps the group epoch.  The target is computed at once
in small groups; in large ones at most once an interval, so that a fleet of thousands that starts
together is not divided thousands of times.
"""

from collections import Counter
from collections.abc import Iterable

from goqueue.groups.assignors import DEFAULT_ASSIGNOR, Subscriber, assign
from goqueue.groups.consumer import ConsumerGroup
from goqueue.groups.context import CoordinatorContext
from goqueue.groups.errors import InvalidRegularExpression
from goqueue.groups.partition_sets import NO_PARTITIONS, PartitionSet
from goqueue.groups.pending_change import PendingChange
from goqueue.groups.records import EpochBumped, Subscription
from goqueue.groups.timers import TimerKind
from goqueue.groups.topics import TopicFacts, TopicsView, Viewer
from goqueue.model.ids import TopicId, TopicName


def retarget(change: PendingChange, reason: str) -> None:
    """Bump the epoch, and set its target now or, in a large group, later."""
    group = change.consumer
    topics = ResolvedSubscriptions(change.context.topics, group.subscriptions).topics()
    change.write(EpochBumped(change.group_id, group.epoch + 1, topics, change.now))
    change.note_rebalance_started(reason)
    if group.is_empty:
        change.check_offsets_later()
    delay_ms = _delay_ms(change)
    if delay_ms > 0:
        change.set_timer(TimerKind.TARGET, delay_ms)
    else:
        set_target(change)


def _delay_ms(change: PendingChange) -> int:
    """How long the new target of a large group is put off."""
    pace = change.context.pace
    last = change.context.target_set_at.get(change.group_id)
    if last is None or len(change.consumer.members) < pace.large_group_members:
        return 0
    return last + pace.interval_ms - change.now


def on_target_deadline(change: PendingChange) -> None:
    """Set a target that was put off, or one for topics whose change was not written."""
    if not isinstance(change.group, ConsumerGroup):
        return
    if change.group.epoch > change.group.target_epoch:
        set_target(change)
    elif topics_differ(change.context, change.group):
        retarget(change, "topics changed")


def set_target(change: PendingChange) -> None:
    group = change.consumer
    context = change.context
    subscriptions = ResolvedSubscriptions(context.topics, group.subscriptions)
    change.write(group.target_record(group.epoch, *_targets(group, subscriptions)))
    change.clear_timer(TimerKind.TARGET)
    if len(group.members) >= context.pace.large_group_members:
        context.target_set_at[change.group_id] = change.now
    else:
        context.target_set_at.pop(change.group_id, None)
    note_if_settled(change)


def note_if_settled(change: PendingChange) -> None:
    if change.consumer.is_settled:
        change.note_rebalance_finished()


def topics_differ(context: CoordinatorContext, group: ConsumerGroup) -> bool:
    """Have the subscribed topics changed since the epoch of the group, or who may see them?"""
    resolved = ResolvedSubscriptions(context.topics, group.subscriptions)
    if resolved.topics() != group.topics:
        return True
    if all(each.viewer is None for each in group.subscriptions):
        return False
    wanted = _targets(group, resolved)[1]
    return any(wanted[each] != group.targets.get(each, NO_PARTITIONS) for each in wanted)


def _targets(
    group: ConsumerGroup, subscriptions: "ResolvedSubscriptions"
) -> tuple[str, dict[str, PartitionSet]]:
    name = preferred_assignor(group)
    members = [
        Subscriber(
            member_id=member.member_id,
            topics=subscriptions.ids(member.subscription),
            had=group.targets.get(member.member_id, NO_PARTITIONS),
            instance_id=member.instance_id,
        )
        for member in group.members.values()
    ]
    counts = {topic.topic_id: topic.partition_count for topic in subscriptions.topics()}
    return name, assign(name, members, counts)


def preferred_assignor(group: ConsumerGroup) -> str:
    """The one most members ask for; the default when nobody does.  Ties go by name."""
    votes = Counter(member.assignor for member in group.members.values() if member.assignor)
    if not votes:
        return DEFAULT_ASSIGNOR
    return max(sorted(votes), key=lambda name: votes[name])


class ResolvedSubscriptions:
    """Subscriptions resolved to the topics that exist; each one once."""

    def __init__(self, view: TopicsView, subscriptions: Iterable[Subscription]) -> None:
        self._view = view
        self._matches: dict[tuple[str, Viewer | None], frozenset[TopicName]] = {}
        self._resolved = {
            subscription: self._resolve(subscription) for subscription in subscriptions
        }
        self._ids = {
            subscription: frozenset(topic.topic_id for topic in topics)
            for subscription, topics in self._resolved.items()
        }

    def topics(self) -> tuple[TopicFacts, ...]:
        """The topics of all subscriptions, by name."""
        wanted = {topic.name: topic for topics in self._resolved.values() for topic in topics}
        return tuple(wanted[name] for name in sorted(wanted))

    def ids(self, subscription: Subscription) -> frozenset[TopicId]:
        """The existing topics of one subscription."""
        return self._ids[subscription]

    def _resolve(self, subscription: Subscription) -> list[TopicFacts]:
        matched = self._match(subscription.regex, subscription.viewer)
        found = map(self._view.find_by_name, {*subscription.names, *matched})
        return [topic for topic in found if topic is not None]

    def _match(self, regex: str | None, viewer: Viewer | None) -> frozenset[TopicName]:
        if not regex:
            return frozenset()
        key = regex, viewer
        if key not in self._matches:
            try:
                self._matches[key] = frozenset(self._view.match(regex, viewer))
            except InvalidRegularExpression:  # was checked at join; this view thinks otherwise
                self._matches[key] = frozenset()
        return self._matches[key]
