"""The verbs of recurring schedules, for programs on an event loop."""

from goqueue.client.http.calls import schedules as schedule_calls
from goqueue.client.http.calls.call import async_verb


class AsyncScheduleVerbs:
    """A part of the client."""

    schedules = async_verb(schedule_calls.schedules)
    schedule = async_verb(schedule_calls.schedule)
    create_schedule = async_verb(schedule_calls.create_schedule)
    replace_schedule = async_verb(schedule_calls.replace_schedule)
    delete_schedule = async_verb(schedule_calls.delete_schedule)
    pause_schedule = async_verb(schedule_calls.pause_schedule)
    resume_schedule = async_verb(schedule_calls.resume_schedule)
    run_schedule = async_verb(schedule_calls.run_schedule)
    schedule_runs = async_verb(schedule_calls.schedule_runs)
    schedule_preview = async_verb(schedule_calls.schedule_preview)
    preview_schedule = async_verb(schedule_calls.preview_schedule)
