"""Queue delivery: any number of consumers receive and ack the messages of a topic one by one.

`machine` has the verbs; start there.  Then:

    ledger_state     what follows from the records: `apply`, deadlines, the snapshot
    partition_state  one group in one partition: ack floor, cursors, messages not finished
    lease       deliveries, and who holds how many
    delivery    a selection of messages becomes a delivery
    settling    how a delivery ends: ack, nack, reject, extend, release, time-out
    lanes       five priorities and whose turn it is; lane_index: where they lie in a partition
    dead_letter dead letters and the headers that say why they failed
    receipts    the text by which a consumer names a delivery
    records     what is on disk; snapshot: queues in a snapshot

The shell around it is `goqueue.broker.queues`.
"""

from goqueue.queue.dead_letter import FailureHistory, dead_letter_topic
from goqueue.queue.delivery import Selection
from goqueue.queue.delivery_batch import DeliveryBatch, Run, Span, claims_of, singles
from goqueue.queue.errors import (
    DeadLetterNotFound,
    InvalidQueueSetting,
    QueueError,
    QueueGroupNotFound,
    ReceiptExpired,
    ReceiptInTransaction,
    ReceiptMalformed,
    ReceiptUnknown,
    RedriveNotFound,
    TooManyInFlight,
)
from goqueue.queue.group import QueueGroup
from goqueue.queue.group_table import GroupTable
from goqueue.queue.lane_index import LaneIndex
from goqueue.queue.lease import Lease, LeaseBook
from goqueue.queue.machine import Due, QueueMachine
from goqueue.queue.owners import Owner, read_owner
from goqueue.queue.partition_state import PartitionState
from goqueue.queue.records import (
    AckFloorMoved,
    DeadLettered,
    DeadLettersPlanned,
    DeadMessage,
    Extended,
    Finished,
    Leased,
    MarkedDead,
    Move,
    QueueMember,
    QueueRecord,
    ReservationsEnded,
    Returned,
    Where,
)
from goqueue.queue.registry import QueueRegistry
from goqueue.queue.replies import (
    Delivered,
    GroupStats,
    InFlight,
    LaneStats,
    PartitionStats,
    Peeked,
    Settled,
    SettleOutcome,
    Totals,
)
from goqueue.queue.settings import QueueSettings
from goqueue.queue.settling import NEVER_DELIVERED, Outcomes, Verdict
from goqueue.queue.totals import sum_of

__all__ = [
    "NEVER_DELIVERED",
    "AckFloorMoved",
    "DeadLetterNotFound",
    "DeadLettered",
    "DeadLettersPlanned",
    "DeadMessage",
    "Delivered",
    "DeliveryBatch",
    "Due",
    "Extended",
    "FailureHistory",
    "Finished",
    "GroupStats",
    "GroupTable",
    "InFlight",
    "InvalidQueueSetting",
    "LaneIndex",
    "LaneStats",
    "Lease",
    "LeaseBook",
    "Leased",
    "MarkedDead",
    "Move",
    "Outcomes",
    "Owner",
    "PartitionState",
    "PartitionStats",
    "Peeked",
    "QueueError",
    "QueueGroup",
    "QueueGroupNotFound",
    "QueueMachine",
    "QueueMember",
    "QueueRecord",
    "QueueRegistry",
    "QueueSettings",
    "ReceiptExpired",
    "ReceiptInTransaction",
    "ReceiptMalformed",
    "ReceiptUnknown",
    "RedriveNotFound",
    "ReservationsEnded",
    "Returned",
    "Run",
    "Selection",
    "SettleOutcome",
    "Settled",
    "Span",
    "TooManyInFlight",
    "Totals",
    "Verdict",
    "Where",
    "claims_of",
    "dead_letter_topic",
    "read_owner",
    "singles",
    "sum_of",
]
