"""What a replay is, kept in a file from its first start on.

Archives and topics grow.  What belongs to a replay is what was there when it first started, and
must be the same when it is started again after a crash: so it is written down.  The file also says
how far the replay is; the broker says it too, with authority, but forgets applications in time.
"""

import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from goqueue.client.errors import ClientError
from goqueue.spark.replay.windows import Span

VERSION: Final = 1


class ReplayRefused(ClientError):
    """A replay cannot be done as asked."""


class Plan(msgspec.Struct, frozen=True):
    version: int
    asked: dict[str, str]
    """What was asked for: a replay of this name cannot be another one."""
    spans: dict[int, Span]
    window: int
    done: int = -1
    """Number of the last window that is written."""
    finished: bool = False


class PlanFile:
    def __init__(self, folder: str | Path, name: str) -> None:
        self._path = Path(folder) / f"{name}.json"

    def find_or_make(self, asked: Mapping[str, str], make: Callable[[], Plan]) -> Plan:
        """The plan as it was first made."""
        plan = self._read()
        if plan is None:
            plan = make()
            self._write(plan)
        if plan.asked != dict(asked):
            changed = sorted(
                each
                for each in plan.asked.keys() | asked.keys()
                if plan.asked.get(each) != asked.get(each)
            )
            raise ReplayRefused(
                f"the replay in {self._path} was begun with another {', '.join(changed)}:"
                " choose another name"
            )
        return plan

    def note(self, plan: Plan, *, done: int, finished: bool) -> Plan:
        plan = msgspec.structs.replace(plan, done=done, finished=finished)
        self._write(plan)
        return plan

    def _read(self) -> Plan | None:
        try:
            plan = msgspec.json.decode(self._path.read_bytes(), type=Plan)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise ReplayRefused(f"{self._path} is damaged: {error}") from error
        if plan.version != VERSION:
            raise ReplayRefused(f"{self._path} has version {plan.version}, not {VERSION}")
        return plan

    def _write(self, plan: Plan) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_name(f".{self._path.name}.{uuid.uuid4().hex}")
        with open(draft, "xb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(plan)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, self._path)
