"""Examination and repair of the data directory of a stopped server."""
