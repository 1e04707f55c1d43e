"""Transactions: the coordinator's state machine.  `machine` has the verbs; `records` the states."""

from goqueue.txn.machine import MustEnd, ProducerIdentity, TransactionMachine
from goqueue.txn.records import PendingOffset, State, TopicPartition, TransactionRecord
from goqueue.txn.transaction import Transaction

__all__ = [
    "MustEnd",
    "PendingOffset",
    "ProducerIdentity",
    "State",
    "TopicPartition",
    "Transaction",
    "TransactionMachine",
    "TransactionRecord",
]
