"""Journeys of messages: events with ranges of offsets, trace ids, and what became of a message."""
