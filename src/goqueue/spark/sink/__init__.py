"""Spark's way into topics: exactly once, by one decision a batch (see `writers`)."""
