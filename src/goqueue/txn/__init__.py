"""Transactions: the coordinator's state machine.  `machine` has the verbs; `records` the states."""

from goqueue.txn.applications import Applications, GroupEnded, Members, RunBegun
from goqueue.txn.identity import ProducerIdentity, identity_of, needs_new_id
from goqueue.txn.machine import Counts, TransactionMachine
from goqueue.txn.records import Attempt, State, TransactionRecord
from goqueue.txn.transaction import (
    GroupOffsets,
    Leftovers,
    MustEnd,
    OpenTransaction,
    Participant,
    QueueLedger,
    Transaction,
)

__all__ = [
    "Applications",
    "Attempt",
    "Counts",
    "GroupEnded",
    "GroupOffsets",
    "Leftovers",
    "Members",
    "MustEnd",
    "OpenTransaction",
    "Participant",
    "ProducerIdentity",
    "QueueLedger",
    "RunBegun",
    "State",
    "Transaction",
    "TransactionMachine",
    "TransactionRecord",
    "identity_of",
    "needs_new_id",
]
