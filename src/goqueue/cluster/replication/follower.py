"""What a follower says it has, and what it gives up when its leader has something else.

Two logs are the same up to where the epochs that wrote them part (KIP-101, KIP-279).  So a
follower names the epoch of its last record when it asks; a leader that has less of that epoch, or
none, says where its own ends, and the follower cuts its log there and asks again.
"""

import msgspec

from goqueue.log.epochs import LeaderEpochs, where_to_truncate
from goqueue.model.ids import NO_EPOCH, Epoch, Offset


class Diverged(msgspec.Struct, frozen=True, gc=False):
    """Where the leader's log ends, for the largest epoch that is not above the follower's."""

    epoch: Epoch
    end_offset: Offset


class Frozen(msgspec.Struct, frozen=True):
    """The leader lacks committed records that this replica has: nothing may be cut."""

    truncation_offset: Offset
    high_watermark: Offset

    def __str__(self) -> str:
        return (
            f"the leader is missing committed records: it would have this replica cut its log at"
            f" offset {self.truncation_offset}, below the high watermark {self.high_watermark}"
        )


def ack_offset(*, synced_offset: Offset, end_offset: Offset, flush: str) -> Offset:
    """The offset that a follower asks for: everything before it counts as stored there."""
    return synced_offset if flush == "commit" else end_offset


def find_divergence(
    epochs: LeaderEpochs, log_end: Offset, *, fetch_offset: Offset, last_fetched_epoch: Epoch
) -> Diverged | None:
    """At the leader: None when the follower's log is the beginning of this one."""
    if last_fetched_epoch == NO_EPOCH:  # it has no record that could differ
        return None
    epoch, end = epochs.end_offset_for(last_fetched_epoch, log_end)
    if epoch < last_fetched_epoch or end < fetch_offset:
        return Diverged(epoch, end)
    return None


def truncation_offset(
    epochs: LeaderEpochs,
    log_end: Offset,
    diverged: Diverged,
    *,
    high_watermark: Offset,
    is_unclean: bool,
) -> Offset | Frozen:
    """At the follower: where to cut its own log; whatever is below is in both.

    `high_watermark` is the durable one.  Only after an unclean election may it be undercut.
    """
    offset = where_to_truncate(epochs, log_end, diverged.epoch, diverged.end_offset)
    if offset < high_watermark and not is_unclean:
        return Frozen(offset, high_watermark)
    return offset
