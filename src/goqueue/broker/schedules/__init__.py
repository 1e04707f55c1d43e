"""Recurring schedules: the verbs, and the task that publishes their runs."""
