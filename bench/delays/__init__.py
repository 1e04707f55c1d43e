"""Delayed messages and recurring schedules, measured and beside their peers."""
