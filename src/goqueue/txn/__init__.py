"""Transactions: the coordinator's state machine.  `machine` has the verbs; `records` the states."""

from goqueue.txn.identity import ProducerIdentity, identity_of, needs_new_id
from goqueue.txn.machine import Members, MustEnd, TransactionMachine
from goqueue.txn.records import PendingOffset, State, TopicPartition, TransactionRecord
from goqueue.txn.transaction import Transaction

__all__ = [
    "Members",
    "MustEnd",
    "PendingOffset",
    "ProducerIdentity",
    "State",
    "TopicPartition",
    "Transaction",
    "TransactionMachine",
    "TransactionRecord",
    "identity_of",
    "needs_new_id",
]
