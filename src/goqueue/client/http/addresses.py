"""Where the nodes of a cluster are: any of them serves any call, so the next one is as good.

http://10.0.0.1:8080,http://10.0.0.2:8080,http://10.0.0.3:8080
"""

from goqueue.client.errors import ClientError, NoAnswer, ServerUnreachable


class Addresses:
    """The one to ask now, until it does not answer.  Several calls may use it at once."""

    def __init__(self, text: str) -> None:
        """Of one server, or of several with commas between."""
        each = [part.strip().rstrip("/") for part in text.split(",")]
        self._all = [part for part in each if part] or [text]
        self.current = self._all[0]

    def note_failure(self, asked: str, error: ClientError) -> None:
        """Of the calls that fail at the same address, only the first changes it."""
        if asked == self.current and isinstance(error, ServerUnreachable | NoAnswer):
            place = self._all.index(asked)
            self.current = self._all[(place + 1) % len(self._all)]
