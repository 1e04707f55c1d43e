"""The service: looks at files, queries and commands once a second, and does what follows.

One thread does all of it but the upkeep of archives, so a pipeline that takes seconds to start
holds up the next one's start, and no query.  Where there are more queries than may be live at a
time, pipelines take turns (`turns`).
"""

import contextlib
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from goqueue.client.errors import ClientError
from goqueue.spark.pipelines.tree import PipelineProblems
from goqueue.spark.runtime.causes import cause_of, errors_of_spark
from goqueue.spark.runtime.progress import Progress
from goqueue.spark.service.alerts import Alert, AlertWatch
from goqueue.spark.service.board import Board, Command, Event, Standing
from goqueue.spark.service.files import Declarations, Declared, explain_problems
from goqueue.spark.service.news import Parked
from goqueue.spark.service.running import Running, Start, set_checkpoints_aside
from goqueue.spark.service.supervision import Supervised
from goqueue.spark.service.turns import Waiting, take_turns
from goqueue.spark.service.webhooks import Notice

TELL_SECONDS: Final = 15.0  # without other news, of what runs
TEXT_MAX: Final = 2_000
QUERIES_MAX: Final = 10  # live at a time; some 135 MiB each while all of them work

LookForNews = Callable[[Mapping[str, Parked]], dict[str, int]]


class Entry:
    """One pipeline: what its file says, how it is, and its queries."""

    def __init__(self, declared: Declared, supervised: Supervised) -> None:
        self.declared = declared
        self.supervised = supervised
        self.running: Running | None = None
        self.progress: list[Progress] = []
        self.watch: AlertWatch | None = None
        self.alerts: list[Alert] = []
        self.told_at = 0.0
        self.told: Standing | None = None
        self.waits_since: float | None = None  # for its turn


class Clock:
    """The two clocks, so that tests can have their own."""

    def steady(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


class PipelineService:
    def __init__(
        self,
        declarations: Declarations,
        start: Start,
        board: Board,
        clock: Clock,
        send: Callable[[str, Notice], None] = lambda url, notice: None,
        *,
        look_for_news: LookForNews = lambda parked: {},
        queries_max: int = QUERIES_MAX,
    ) -> None:
        self.entries: dict[str, Entry] = {}
        self._declarations = declarations
        self._start = start
        self._send = send
        self._board = board
        self._clock = clock
        self._look_for_news = look_for_news
        self._queries_max = queries_max
        self._host = socket.gethostname()
        self._stopped: set[str] = set()
        self._events: list[Event] = []  # not told yet

    def load(self) -> None:
        """What operators stopped before this service was started; raises `ClientError`."""
        self._stopped = self._board.find_stopped()

    def step(self) -> None:
        self._look_at_files()
        self._take_commands()
        for name, entry in list(self.entries.items()):
            self._observe(name, entry)
            self._watch(name, entry)
            self._act(name, entry)
        self._take_turns()
        self._tell()

    def close(self) -> None:
        """Queries end; the next service goes on from their checkpoints."""
        for entry in self.entries.values():
            if entry.running is not None:
                entry.running.stop()
                entry.running = None
                entry.progress = []

    def running(self) -> Iterable[tuple[str, Running]]:
        return [(name, each.running) for name, each in self.entries.items() if each.running]

    def standings(self) -> list[Standing]:
        return [self.standing_of(name, each) for name, each in list(self.entries.items())]

    def note(self, name: str, event: str, text: str = "") -> None:
        self._events.append(Event(name, event, self._clock.wall_ms(), text[:TEXT_MAX]))

    # --- files ------------------------------------------------------------------------------------

    def _look_at_files(self) -> None:
        found = {each.name: each for each in self._declarations.look()}
        for name, declared in found.items():
            entry = self.entries.get(name)
            if entry is None:
                supervised = Supervised(is_stopped=name in self._stopped)
                entry = self.entries[name] = Entry(declared, supervised)
                supervised.declare(declared.version, declared.problem)
            elif declared.version != entry.declared.version:
                self.note(name, "changed", declared.problem or f"{declared.file.name} was changed")
                entry.supervised.declare(declared.version, declared.problem)
                entry.declared, entry.watch = declared, None
        for name in self.entries.keys() - found.keys():
            self._remove(name)

    def _remove(self, name: str) -> None:
        entry = self.entries.pop(name)
        if entry.running is not None:
            entry.running.stop()
        self.note(name, "removed", f"{entry.declared.file.name} declares it no more")
        with contextlib.suppress(ClientError):
            self._board.forget(name)

    # --- commands ---------------------------------------------------------------------------------

    def _take_commands(self) -> None:
        try:
            commands = self._board.commands()
        except ClientError:  # the broker is away; they are read when it is back
            return
        for each in commands:
            entry = self.entries.get(each.name)
            if entry is not None:
                self._carry_out(each, entry)

    def _carry_out(self, command: Command, entry: Entry) -> None:
        self.note(command.name, "asked", command.verb)
        if command.verb == "stop":
            entry.supervised.ask_stop()
            return
        self._stop(entry)
        entry.supervised.note_stopped()
        if command.verb == "reset":
            self._reset(command.name, entry, command.start)
        entry.supervised.ask_restart()

    def _reset(self, name: str, entry: Entry, start: str | None) -> None:
        pipeline = entry.declared.pipeline
        if pipeline is None:
            return
        if "://" in pipeline.checkpoints:
            self.note(name, "not reset", f"remove the checkpoints at {pipeline.checkpoints}")
            return
        stamp = str(self._clock.wall_ms())
        aside = set_checkpoints_aside(entry.declared.file, pipeline, stamp, start)
        said = f"the checkpoints are in {aside} now" if aside else "no checkpoints"
        self.note(name, "reset", said if start is None else f"{said}; it begins at {start}")

    # --- queries ----------------------------------------------------------------------------------

    def _observe(self, name: str, entry: Entry) -> None:
        if entry.running is None:
            return
        entry.progress = entry.running.look()
        failure = entry.running.failure()
        if failure is not None:
            self._fail(name, entry, failure)
        elif all(each.ended for each in entry.progress):
            entry.running = None
            entry.supervised.note_finished()
            self.note(name, "finished")

    def _act(self, name: str, entry: Entry) -> None:
        """Starts take turns."""
        if entry.supervised.decide(self._clock.steady()) == "stop":
            self._stop(entry)
            entry.supervised.note_stopped()
            self.note(name, "stopped")

    def _begin(self, name: str, entry: Entry) -> None:
        declared = entry.declared
        assert declared.pipeline is not None, "a file with problems is not started"
        try:
            entry.running = self._start(declared.pipeline, declared.file)
        except PipelineProblems as error:
            text = ""  # a topic that is kept as a table has no file
            with contextlib.suppress(OSError):
                text = declared.file.read_text()
            entry.supervised.note_invalid(explain_problems(declared.file.name, text, error))
            self.note(name, "invalid", entry.supervised.problem or str(error))
        except (ClientError, OSError) as error:
            self._fail(name, entry, str(error))
        except errors_of_spark() as error:
            self._fail(name, entry, cause_of(error))
        else:
            entry.supervised.note_started(self._clock.steady())
            self.note(name, "started")

    def _stop(self, entry: Entry) -> None:
        if entry.running is not None:
            entry.running.stop()
            entry.running = None
        entry.progress = []

    # --- turns ------------------------------------------------------------------------------------

    def _take_turns(self) -> None:
        now = self._clock.steady()
        live = [
            each.running.turn(name)
            for name, each in self.entries.items()
            if each.running is not None and each.running.position() is None
        ]
        turn = take_turns(live, self._find_waiting(now), self._queries_max, now)
        for name in turn.park:
            running = self.entries[name].running
            assert running is not None, "it is live"
            running.park()
        for name in turn.begin:
            entry = self.entries[name]
            entry.waits_since = None
            if entry.running is None:
                self._begin(name, entry)
            else:
                self._wake(name, entry, entry.running)

    def _find_waiting(self, now: float) -> list[Waiting]:
        """Those to be started, and those that are parked and have something to read."""
        parked = {
            name: where
            for name, each in self.entries.items()
            if each.running is not None and (where := each.running.position()) is not None
        }
        news = self._look_for_news(parked) if parked else {}
        found = []
        for name, entry in self.entries.items():
            if entry.running is None:
                pipeline = entry.declared.pipeline
                queries = 1 if pipeline is None else len(pipeline.sinks)
                is_waiting = entry.supervised.decide(now) == "start"
            else:
                queries = entry.running.queries
                entry.running.note_news(news.get(name))
                is_waiting = name in news and entry.running.is_due()
            if not is_waiting:
                entry.waits_since = None
                continue
            entry.waits_since = now if entry.waits_since is None else entry.waits_since
            found.append(Waiting(name, queries, entry.waits_since))
        return found

    def _wake(self, name: str, entry: Entry, running: Running) -> None:
        """What fails here fails as a query would."""
        try:
            running.wake()
        except (ClientError, OSError) as error:
            self._fail(name, entry, str(error))
        except errors_of_spark() as error:
            self._fail(name, entry, cause_of(error))

    def _fail(self, name: str, entry: Entry, cause: str) -> None:
        self._stop(entry)
        entry.supervised.note_failed(cause, self._clock.steady())
        self.note(name, "failed", cause)

    # --- alerts -----------------------------------------------------------------------------------

    def _watch(self, name: str, entry: Entry) -> None:
        """What is stopped or has finished is not expected to bring anything."""
        pipeline = entry.declared.pipeline
        rules = None if pipeline is None else pipeline.alerts
        if rules is None or entry.supervised.state in ("stopped", "finished"):
            entry.watch, found = None, list[Alert]()
        else:
            now = self._clock.steady()
            if entry.watch is None:
                assert pipeline is not None, "it has rules"
                sinks = [f"{pipeline.name}.{each}" for each in pipeline.sinks]
                entry.watch = AlertWatch(rules, sinks, now)
            found = entry.watch.look(entry.progress, now)
        url = rules.webhook if rules is not None else None
        before = {(each.query, each.kind): each for each in entry.alerts}
        now_active = {(each.query, each.kind): each for each in found}
        for key in now_active.keys() - before.keys():
            self._alert(name, now_active[key], "firing", url)
        for key in before.keys() - now_active.keys():
            self._alert(name, before[key], "resolved", url)
        entry.alerts = found

    def _alert(self, name: str, alert: Alert, state: str, url: str | None) -> None:
        is_firing = state == "firing"
        text = f"{alert.query}: {alert.kind}: {alert.text if is_firing else 'is over'}"
        self.note(name, "alert" if is_firing else "resolved", text)
        if url is not None:
            now = self._clock.wall_ms()
            said = f"GoQueue pipeline {text}"
            self._send(url, Notice(said, name, alert.query, alert.kind, state, now, self._host))

    # --- news -------------------------------------------------------------------------------------

    def _tell(self) -> None:
        with contextlib.suppress(ClientError):  # it is told with the next news
            while self._events:
                self._board.note(self._events[0])
                del self._events[0]
            for name, entry in self.entries.items():
                self._tell_standing(name, entry)

    def _tell_standing(self, name: str, entry: Entry) -> None:
        standing = self.standing_of(name, entry)
        now, told = self._clock.steady(), entry.told
        is_news = told is None or _news(told) != _news(standing)
        if is_news or now - entry.told_at >= TELL_SECONDS:
            self._board.tell(standing)
            entry.told, entry.told_at = standing, now

    def standing_of(self, name: str, entry: Entry) -> Standing:
        supervised, wall = entry.supervised, self._clock.wall_ms()
        wait_s = (
            None
            if supervised.next_try is None
            else max(0.0, supervised.next_try - self._clock.steady())
        )
        return Standing(
            name,
            supervised.state,
            str(entry.declared.file),
            wall,
            host=self._host,
            restarts=supervised.restarts,
            problem=None if supervised.problem is None else supervised.problem[:TEXT_MAX],
            next_try=None if wait_s is None else wall + int(wait_s * 1000),
            queries=entry.progress,
            alerts=entry.alerts,
        )


def _news(standing: Standing) -> tuple[object, ...]:
    """What is told as soon as it changes."""
    alerts = [(each.query, each.kind) for each in standing.alerts]
    parked = [each.name for each in standing.queries if each.state == "parked"]
    return standing.state, standing.problem, alerts, parked
