"""Archives of running pipelines, compacted and vacuumed now and then, beside their writers."""

import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

from goqueue.client.errors import ClientError
from goqueue.spark.lake import LakeError
from goqueue.spark.lake.upkeep import compact_files, vacuum
from goqueue.spark.runtime.causes import cause_of, errors_of_spark
from goqueue.spark.service.running import Running

Tell = Callable[[str, str], None]  # a pipeline's name, and what was done for it
CLOSE_SECONDS: Final = 30.0


class Upkeep:
    """One round at a time, in a thread of its own: a large table takes its time."""

    def __init__(self, spark: Any, every_seconds: float, tell: Tell) -> None:
        self._spark = spark
        self._every_seconds = every_seconds
        self._tell = tell
        self._due: float | None = None
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def run_if_due(self, running: Iterable[tuple[str, Running]], now: float) -> None:
        if self._due is None:
            self._due = now + self._every_seconds
        if now < self._due or (self._thread is not None and self._thread.is_alive()):
            return
        self._due = now + self._every_seconds
        wanted = [(name, each) for name, each in running if each.archives]
        self._thread = threading.Thread(target=self._run, args=(wanted,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _run(self, wanted: list[tuple[str, Running]]) -> None:
        """Several may write to one place: it is gone through once, for the first of them."""
        places: dict[tuple[str, str | None], str] = {}
        for name, running in wanted:
            for sink in running.archives:
                places.setdefault((running.places.path(sink.archive), sink.catalog), name)
        for (folder, catalog), name in places.items():
            if self._closing.is_set():
                return
            self._tell(name, self._keep(folder, catalog))

    def _keep(self, folder: str, catalog: str | None) -> str:
        try:
            compacted = compact_files(self._spark, folder, catalog=catalog)
            removed = vacuum(folder, catalog=catalog)
        except (ClientError, LakeError, OSError) as error:
            return f"{folder}: upkeep failed: {error}"
        except errors_of_spark() as error:
            return f"{folder}: upkeep failed: {cause_of(error)}"
        merged = sum(each.merged for each in compacted)
        return f"{folder}: {merged} files merged, {sum(len(e.removed) for e in removed)} removed"
