"""What goes in and out of the operations on consumer groups, and what they may refuse with."""

from typing import Annotated, Final

from litestar.params import PathParameter

from goqueue.api.groups import NAME_LENGTH_MAX, JoinGroup
from goqueue.api.messages import INT32_MAX
from goqueue.groups.errors import InvalidGroupId
from goqueue.model.errors import InvalidRequest
from goqueue.model.ids import GroupId
from goqueue.server.http.routes.family import query

AUTO_COMMIT_MS_MAX: Final = 3_600_000
GROUP_PATTERN: Final = "^[^/\\u0000-\\u001f\\u007f]{1,249}$"


GroupPath = Annotated[
    str,
    PathParameter(
        description="The group's name: any text without a slash.",
        schema_extra={"pattern": GROUP_PATTERN, "examples": ["billing"]},
    ),
]
MemberQuery = Annotated[str, query("As `join` gave it.", min_length=1, max_length=NAME_LENGTH_MAX)]


def group_name(text: str) -> GroupId:
    if not 0 < len(text) <= NAME_LENGTH_MAX or any(ord(c) < 32 or ord(c) == 127 for c in text):
        raise InvalidGroupId(
            f"group {text[:60]!r}: a name has 1 to {NAME_LENGTH_MAX} characters, none of them"
            " a control character"
        )
    return GroupId(text)


# --- what may be refused ------------------------------------------------------------------------

MEANINGS: Final = {
    404: "No such group, member, topic or partition. A member that is not known joins again.",
    409: "The generation is old, the group has members or is in the other mode, or another process"
    " has taken the seat.",
}
WRITE_MEANINGS: Final = {
    403: "A page of another origin made a browser send this, or the partition is another member's."
}


def check_join(data: JoinGroup) -> None:
    """The ranges of durations, however they were written."""
    for name, high in (
        ("auto_commit_interval_ms", AUTO_COMMIT_MS_MAX),
        ("session_timeout_ms", INT32_MAX),
        ("rebalance_timeout_ms", INT32_MAX),
    ):
        value = getattr(data, name)
        low = int(name != "auto_commit_interval_ms")
        if value is not None and not low <= value <= high:
            raise InvalidRequest(f"{name}: {value} ms; {low} to {high} are possible")
