"""Holding HTTP's clients to their quotas."""
