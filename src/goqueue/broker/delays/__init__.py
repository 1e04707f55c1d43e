"""Delayed messages at work: a line a partition, and the verbs that listeners share."""
