"""Refusals of schedules."""

from collections.abc import Sequence

import msgspec

from goqueue.model.errors import GoQueueError, InvalidRequest


class Mistake(msgspec.Struct, frozen=True):
    """One thing that is wrong with a schedule, and what may have been meant."""

    field: str
    message: str
    suggestion: str = ""

    def __str__(self) -> str:
        hint = f"; did you mean {self.suggestion!r}?" if self.suggestion else ""
        return f"{self.field}: {self.message}{hint}"


class InvalidSchedule(InvalidRequest):
    """All that is wrong with it, in `mistakes`."""

    code = "invalid_schedule"

    def __init__(self, text: str, mistakes: Sequence[Mistake] = ()) -> None:
        super().__init__(text)
        self.mistakes = tuple(mistakes)

    @classmethod
    def of(cls, mistakes: Sequence[Mistake]) -> "InvalidSchedule":
        return cls("; ".join(map(str, mistakes)), mistakes)


class ScheduleNotFound(GoQueueError):
    code = "schedule_not_found"


class ScheduleExists(GoQueueError):
    code = "schedule_exists"


class ScheduleChanged(GoQueueError):
    """The version that was to be replaced is not the newest."""

    code = "schedule_changed"


class ScheduleFinished(GoQueueError):
    """It has had all the runs that it may have."""

    code = "schedule_finished"


class TooManySchedules(GoQueueError):
    """As many as the server's setting allows, or as many bytes; or runs that wait."""

    code = "too_many_schedules"
