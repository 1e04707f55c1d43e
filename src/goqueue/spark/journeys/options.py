"""What a report of journeys is told, by a program or by the command line."""

from typing import Annotated

import msgspec

from goqueue.model.options import TimeMs, argument, option

DAY_MS = 86_400_000


class JourneyOptions(msgspec.Struct, frozen=True, kw_only=True):
    topics: Annotated[
        tuple[str, ...], argument("Topics; all that are traced, without any.", metavar="[TOPIC]...")
    ] = ()
    from_ms: Annotated[
        TimeMs | None, option("Start time: -1h, or RFC 3339. \\[a day ago]", "--since")
    ] = None
    to_ms: Annotated[TimeMs | None, option("End time, exclusive. \\[now]", "--before")] = None
    slowest: Annotated[int, option("Number of slowest messages to name.", min=0, max=1_000)] = 10
