# Generated from async_schedules.py by `make generate`: change that one, not this.
"""The verbs of recurring schedules, for programs that wait."""

from goqueue.client.http.calls import schedules as schedule_calls
from goqueue.client.http.calls.call import verb


class ScheduleVerbs:
    """A part of the client."""

    schedules = verb(schedule_calls.schedules)
    schedule = verb(schedule_calls.schedule)
    create_schedule = verb(schedule_calls.create_schedule)
    replace_schedule = verb(schedule_calls.replace_schedule)
    delete_schedule = verb(schedule_calls.delete_schedule)
    pause_schedule = verb(schedule_calls.pause_schedule)
    resume_schedule = verb(schedule_calls.resume_schedule)
    run_schedule = verb(schedule_calls.run_schedule)
    schedule_runs = verb(schedule_calls.schedule_runs)
    schedule_preview = verb(schedule_calls.schedule_preview)
    preview_schedule = verb(schedule_calls.preview_schedule)
