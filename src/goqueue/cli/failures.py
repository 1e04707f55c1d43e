"""How a command ends: exit codes that scripts can rely on, and errors as one readable line.

0  done                      3  no server answered
1  the operation failed      4  what was named does not exist
2  usage or configuration    5  conflict: it exists already, or has changed
6  not logged in, or not allowed
                             130  interrupted (ctrl-c)
"""

import enum
from typing import Final


class ExitCode(enum.IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    CONFLICT = 5
    DENIED = 6
    INTERRUPTED = 130


SPARK_EXTRA: Final = {"deltalake", "numpy", "py4j", "pyarrow", "pyiceberg", "pyspark"}

NO_SERVER_HINT: Final = "start one with `goqueue server`, or name another one with --server"


LOGIN_HINT: Final = (
    "log in with `goqueue login`, or set GOQUEUE_API_KEY, or GOQUEUE_USER and GOQUEUE_PASSWORD"
)
CERTIFICATE_HINT: Final = (
    "with the command line: `goqueue login --ca-file FILE`, or GOQUEUE_CA_FILE"
)


class Failure(Exception):
    """Ends a command with a text for people and a code for scripts."""

    def __init__(self, text: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


class UsageFailure(Failure):
    """What was asked for makes no sense, whatever the server holds."""

    def __init__(self, text: str) -> None:
        super().__init__(text, ExitCode.USAGE)


def explain(error: Exception) -> Failure | None:
    """The failure to show for an error; None for one that is a bug, or not ours."""
    from goqueue.client import errors as client
    from goqueue.model.errors import GoQueueError

    match error:
        case ExceptionGroup(exceptions=[only]):  # a task group wraps what ended it
            return explain(only)
        case Failure():
            return error
        case client.NotFound():
            return Failure(str(error), ExitCode.NOT_FOUND)
        case client.Conflict():
            return Failure(str(error), ExitCode.CONFLICT)
        case client.BadRequest():
            return Failure(str(error), ExitCode.USAGE)
        case client.Unauthorized():
            return Failure(f"{error}\n{LOGIN_HINT}", ExitCode.DENIED)
        case client.Forbidden():
            return Failure(str(error), ExitCode.DENIED)
        case client.BadLogin():
            hint = f"\n{CERTIFICATE_HINT}" if "ca_file)" in str(error) else ""
            return Failure(f"{error}{hint}", ExitCode.USAGE)
        case client.ServerUnreachable():
            return Failure(f"{error}\n{NO_SERVER_HINT}", ExitCode.UNREACHABLE)
        case client.ClientError() | GoQueueError():
            return Failure(str(error))
        case ModuleNotFoundError(name=str(name)) if name.partition(".")[0] in SPARK_EXTRA:
            return Failure(f"this needs Spark: pip install 'goqueue[spark]' (there is no {name})")
        case _:
            return None
