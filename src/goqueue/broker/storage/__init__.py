"""Partitions and their files: opening, syncing, retention, compaction, backup."""
