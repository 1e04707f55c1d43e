"""Being asked to stop, by SIGTERM, ctrl-c or a caller."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Whether somebody asked to stop."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    @property
    def requested(self) -> bool:
        return self._asked.is_set()

    def ask(self) -> None:
        self._asked.set()

    def wait(self, seconds: float) -> bool:
        """True as soon as somebody asks; False when nobody did for so long."""
        return self._asked.wait(seconds)

    def listen(self) -> None:
        """To signals.  Once more after Spark has started, which listens to ctrl-c itself."""
        if threading.current_thread() is threading.main_thread():  # others must not
            for each in SIGNALS:
                signal.signal(each, self._on_signal)

    def _on_signal(self, number: int, _frame: object) -> None:
        if self.requested:  # for the second time: wait for nothing
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.ask()


@contextlib.contextmanager
def stop_on_signals() -> Iterator[Stop]:
    before = {each: signal.getsignal(each) for each in SIGNALS}
    stop = Stop()
    stop.listen()
    try:
        yield stop
    finally:
        if threading.current_thread() is threading.main_thread():
            for each, handler in before.items():
                signal.signal(each, handler)
