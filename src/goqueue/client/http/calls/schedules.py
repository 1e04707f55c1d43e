"""Every request about recurring schedules."""

from typing import Any

import msgspec

from goqueue.api.schedules import (
    PreviewBody,
    PreviewInput,
    RunBody,
    RunList,
    RunRequestedBody,
    ScheduleBody,
    ScheduleDeleted,
    ScheduleInput,
    ScheduleList,
)
from goqueue.client.http.calls.call import Call, change, get, nothing, path_of, post


def create_schedule(
    name: str, schedule: ScheduleInput, *, paused: bool = False
) -> Call[ScheduleBody]:
    fields: dict[str, Any] = msgspec.to_builtins(schedule)
    return post("/schedules", ScheduleBody, {"name": name, "paused": paused, **fields})


def replace_schedule(name: str, schedule: ScheduleInput) -> Call[ScheduleBody]:
    """Its runs, their number and whether it is paused stay.

    With a version it may be refused the second time, and has been done the first.
    """
    return change(
        "PUT", _path(name), ScheduleBody, schedule, is_repeatable=schedule.version is None
    )


def schedule(name: str) -> Call[ScheduleBody]:
    return get(_path(name), ScheduleBody)


def schedules(limit: int | None = None, after: str | None = None) -> Call[ScheduleList]:
    """By name; `next` of the page is `after` of the next one."""
    return get("/schedules", ScheduleList, {"limit": limit, "after": after})


def delete_schedule(name: str) -> Call[None]:
    return change("DELETE", _path(name), ScheduleDeleted).then(nothing)


def pause_schedule(name: str) -> Call[ScheduleBody]:
    return post(_path(name, "pause"), ScheduleBody, is_repeatable=True)


def resume_schedule(name: str) -> Call[ScheduleBody]:
    """Runs that it missed are made up for as its `missed` says."""
    return post(_path(name, "resume"), ScheduleBody, is_repeatable=True)


def run_schedule(name: str) -> Call[RunRequestedBody]:
    """Now, beside its other runs, also while it is paused; waits some seconds for it."""
    return post(_path(name, "run"), RunRequestedBody)


def schedule_runs(name: str) -> Call[list[RunBody]]:
    """The newest first."""
    return get(_path(name, "runs"), RunList).then(lambda found: found.runs)


def preview_schedule(preview: PreviewInput) -> Call[PreviewBody]:
    """When a schedule would run; nothing is stored."""
    return post("/schedules/preview", PreviewBody, preview, is_repeatable=True)


def schedule_preview(name: str, count: int | None = None) -> Call[PreviewBody]:
    """The next runs of one that is there."""
    return get(_path(name, "preview"), PreviewBody, {"count": count})


def _path(name: str, *more: str) -> str:
    return path_of("schedules", name, *more)
