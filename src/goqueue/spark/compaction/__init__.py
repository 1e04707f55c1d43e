"""Compaction of a topic by a Spark job."""
