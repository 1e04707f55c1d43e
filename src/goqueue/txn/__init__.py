"""Transactions: the coordinator's state machine.  `machine` has the verbs; `records` the states."""

from goqueue.txn.applications import GroupEnded, Members, RunBegun
from goqueue.txn.identity import ProducerIdentity, identity_of, needs_new_id
from goqueue.txn.machine import TransactionMachine
from goqueue.txn.records import Attempt, PendingOffset, State, TransactionRecord
from goqueue.txn.transaction import NO_RECORDS, MustEnd, OpenTransaction, Transaction

__all__ = [
    "NO_RECORDS",
    "Attempt",
    "GroupEnded",
    "Members",
    "MustEnd",
    "OpenTransaction",
    "PendingOffset",
    "ProducerIdentity",
    "RunBegun",
    "State",
    "Transaction",
    "TransactionMachine",
    "TransactionRecord",
    "identity_of",
    "needs_new_id",
]
