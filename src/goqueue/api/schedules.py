"""Recurring schedules as JSON: bodies of `/schedules`."""

from typing import Annotated, Any, Final, Literal

import msgspec

from goqueue.api.messages import INT32_MAX, Encoding, HeaderBody
from goqueue.api.parsing import INT64_MAX, NAME_PATTERN, WAIT_PATTERN

PREVIEW_DEFAULT: Final = 10
PREVIEW_MAX: Final = 100
PAGE_DEFAULT: Final = 100
PAGE_MAX: Final = 1_000

Time = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)] | str
TimeBody = str | int | None
Duration = (
    Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
    | Annotated[str, msgspec.Meta(pattern=WAIT_PATTERN)]
)
Count = Annotated[int, msgspec.Meta(ge=1, le=INT64_MAX)]


class ScheduledMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What each run publishes.  Texts may have placeholders, as in `{{run}}`."""

    value: Any
    """A string, null, or any JSON value, which is kept as compact JSON text."""
    key: str | None = None
    headers: dict[str, str | None] | list[HeaderBody] = {}
    partition: Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)] | None = None
    """Absent: by the key's hash; without a key, in turn."""
    priority: Annotated[int, msgspec.Meta(ge=0, le=4)] | str | None = None
    """critical, high, normal, low, background, or 0 to 4; kept as header `gq-priority`."""
    ttl: Annotated[int, msgspec.Meta(ge=1, le=INT64_MAX)] | str | None = None
    """How long queues deliver it, as `30s` or in milliseconds; kept as header `gq-ttl-ms`."""
    encoding: Encoding = "text"
    """Of key, value and header values.  With `base64` they have no placeholders."""


class ScheduleInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is to be published when; for `PUT`, which keeps the name and the state."""

    topic: str
    message: ScheduledMessage
    cron: str | None = None
    """5 fields, 6 with seconds first, or @hourly, @daily, @weekly, @monthly, @yearly."""
    every: Duration | None = None
    """An interval instead of `cron`, as `15m` or in milliseconds; at least a second."""
    timezone: str = "UTC"
    """IANA name of the zone whose clocks `cron` means, as in Asia/Karachi."""
    start: Time | None = None
    """No run before that time: RFC 3339 or milliseconds since 1970.  Intervals count from it."""
    end: Time | None = None
    """No run after that time."""
    max_runs: Count | None = None
    """Runs in all, also those that somebody asked for."""
    missed: Literal["skip", "one", "all"] = "one"
    """Of runs that nobody could publish in time: none is made up for, the newest one, or all."""
    missed_max: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 100
    """With `all`: so many, the newest."""
    grace: Duration = 60_000
    """With `skip`: a run that is no later than that is published."""
    description: str = ""
    version: Count | None = None
    """With `PUT`: only if this is its newest version."""


class NewSchedule(ScheduleInput, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: Annotated[str, msgspec.Meta(pattern=NAME_PATTERN)]
    paused: bool = False


class PreviewInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """When a schedule would run; nothing is stored."""

    cron: str | None = None
    every: Duration | None = None
    timezone: str = "UTC"
    start: Time | None = None
    end: Time | None = None
    count: Annotated[int, msgspec.Meta(ge=1, le=PREVIEW_MAX)] = PREVIEW_DEFAULT


class PreviewRun(msgspec.Struct, frozen=True):
    at: TimeBody
    local: str
    """In the schedule's time zone."""


class PreviewBody(msgspec.Struct, frozen=True):
    text: str
    """In English."""
    timezone: str
    runs: list[PreviewRun]


class MessageTemplate(msgspec.Struct, frozen=True, omit_defaults=True):
    value: str | None
    key: str | None
    headers: list[HeaderBody]
    partition: int | None
    encoding: Encoding = "text"


class RunBody(msgspec.Struct, frozen=True):
    """A run that was published, and where its message is."""

    number: int
    scheduled_at: TimeBody
    published_at: TimeBody
    late_ms: int
    topic: str
    partition: int
    offset: int
    manual: bool
    """Somebody asked for it."""


class RunError(msgspec.Struct, frozen=True):
    """Why the run that is due is not published yet; it is tried again."""

    message: str
    since: TimeBody
    attempts: int
    retry_at: TimeBody


class ScheduleBody(msgspec.Struct, frozen=True):
    name: str
    status: str
    """active, paused or finished."""
    version: int
    topic: str
    message: MessageTemplate
    cron: str | None
    every_ms: int | None
    timezone: str
    text: str
    """When it runs, in English."""
    start: TimeBody
    end: TimeBody
    max_runs: int | None
    missed: str
    missed_max: int
    grace_ms: int
    description: str
    created_at: TimeBody
    updated_at: TimeBody
    next_run_at: TimeBody
    """Null when there is none, or while it is paused."""
    runs: int
    """Published, or under way."""
    missed_runs: int
    """Not made up for; 1000 of one outage at most are counted."""
    last_run: RunBody | None
    error: RunError | None
    """The run that is due fails."""


class ScheduleList(msgspec.Struct, frozen=True):
    schedules: list[ScheduleBody]
    total: int
    next: str | None
    """Give it as `after` for the next page; null at the end."""


class RunList(msgspec.Struct, frozen=True):
    name: str
    runs: list[RunBody]
    """The newest first; as many as the server's setting `schedules.runs_kept` says."""


class RunRequestedBody(msgspec.Struct, frozen=True):
    """The run that was asked for."""

    name: str
    scheduled_at: TimeBody
    run: RunBody | None
    """Null: it is not published yet, and will be."""
    error: RunError | None


class ScheduleDeleted(msgspec.Struct, frozen=True):
    name: str
