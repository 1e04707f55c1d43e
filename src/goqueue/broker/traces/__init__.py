"""Journeys of messages: recorded where they happen, kept in `__traces`, asked for at any node."""
