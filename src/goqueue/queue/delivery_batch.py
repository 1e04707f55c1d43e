"""What a consumer receives: single messages, and runs of a batch whose records need no check.

A run keeps the records as they were decoded, so that a thousand messages cost a few objects until
somebody wants them one by one.
"""

from collections.abc import Iterator

import msgspec

from goqueue.model.batch import base_offset_at
from goqueue.model.ids import Timestamp
from goqueue.model.record import Buffer, Record
from goqueue.queue.ranges import Ranges, ranges_of
from goqueue.queue.receipts import Claim
from goqueue.queue.records import Where
from goqueue.queue.replies import Delivered


class Run(msgspec.Struct, frozen=True, gc=False):
    """Records of one batch in order, of one lane, delivered for the first time."""

    records: list[Record]  # one or more
    lane: int
    batch: Buffer  # as it lies in the log

    @property
    def ranges(self) -> Ranges:
        first, last = self.records[0].offset, self.records[-1].offset
        if last - first + 1 == len(self.records):
            return ((first, last),)
        return ranges_of(record.offset for record in self.records)


Single = tuple[Record, int, int, int, int]  # with its attempt, lane, failures and time-outs
Chosen = Single | Run
Span = tuple[int, int, int]  # first, last, attempt


class DeliveryBatch(msgspec.Struct, frozen=True):
    """What one delivery has of one partition, in the order of their turns."""

    where: Where
    lease_id: int
    deadline: Timestamp
    chosen: list[Chosen]

    @property
    def count(self) -> int:
        return count_of(self.chosen)

    def messages(self) -> list[Delivered]:
        group_id, topic, partition = self.where.group_id, self.where.topic, self.where.partition
        lease_id, deadline = self.lease_id, self.deadline
        return [
            Delivered(
                record,
                group_id,
                topic,
                partition,
                attempt,
                lease_id,
                lane,
                deadline,
                failures,
                timeouts,
            )
            for record, attempt, lane, failures, timeouts in singles(self.chosen)
        ]

    def spans(self) -> list[Span]:
        """Which offsets these are, ascending; parts of one attempt that touch are one."""
        found = [
            span
            for each in self.chosen
            for span in (
                ((first, last, 1) for first, last in each.ranges)
                if isinstance(each, Run)
                else ((each[0].offset, each[0].offset, each[1]),)
            )
        ]
        found.sort()
        return _join(found)

    def claims(self, place: int) -> list[Claim]:
        """As receipts for all of it would be read, the first one at `place` of a request."""
        return claims_of(self.spans(), place)

    def batches(self) -> bytes | None:
        """The batches that hold these messages, if they are all at hand."""
        batches: dict[int, Buffer] = {}  # two lanes may have one each, of the same offset
        for each in self.chosen:
            if not isinstance(each, Run):
                return None
            batches[base_offset_at(each.batch)] = each.batch
        return b"".join(batches[base_offset] for base_offset in sorted(batches))


def claims_of(spans: list[Span], place: int) -> list[Claim]:
    """As receipts for all of them would be read, the first one at `place` of a request."""
    claims: list[Claim] = []
    for first, last, attempt in spans:
        claims.append(Claim(first, last, attempt, place))
        place += last - first + 1
    return claims


def singles(chosen: list[Chosen]) -> Iterator[Single]:
    for each in chosen:
        if isinstance(each, Run):
            lane = each.lane
            yield from ((record, 1, lane, 0, 0) for record in each.records)
        else:
            yield each


def count_of(chosen: list[Chosen]) -> int:
    return sum(len(each.records) if isinstance(each, Run) else 1 for each in chosen)


def _join(spans: list[Span]) -> list[Span]:
    found: list[Span] = []
    for first, last, attempt in spans:
        if found and found[-1][1] == first - 1 and found[-1][2] == attempt:
            found[-1] = found[-1][0], last, attempt
        else:
            found.append((first, last, attempt))
    return found
