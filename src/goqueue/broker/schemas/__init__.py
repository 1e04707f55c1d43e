"""The schema registry of the broker: the machine's host, and what it decides about records."""
