"""`goqueue cluster events|upgrade`: what has happened, and levels of features."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Final

from goqueue.cli.cells import Moment
from goqueue.cli.failures import Failure
from goqueue.cli.output import for_people, line, rows_of, show
from goqueue.model.options import Pairs, option

if TYPE_CHECKING:
    from goqueue.api.balance import EventBody, FeatureBody
    from goqueue.client import Client

LOOK_SECONDS: Final = 1.0


def events(
    client: "Client",
    limit: Annotated[int, option("Number of events, the newest ones.", "-n", min=1, max=1000)] = 50,
    follow: Annotated[bool, option("Wait for more, until ctrl-c.", "-f")] = False,
) -> None:
    """List what happened: elections, in-sync replicas, nodes, moves.

    A node lists what it has seen since it started.
    """
    found = client.cluster_events(limit=limit)
    if not follow:
        show(
            found,
            ("TIME", "KIND", "EVENT"),
            rows_of(found, (Moment, "at"), "kind", "text"),
            drop=("KIND",),
            empty="nothing has happened since this node started",
        )
        return
    while True:
        for each in found:
            sys.stdout.write(f"{each.at}  {each.text}\n" if for_people() else line(each))
        sys.stdout.flush()
        time.sleep(LOOK_SECONDS)
        found = client.cluster_events(after=_last(found), limit=1000)


def _last(found: "list[EventBody]") -> int:
    return found[-1].number if found else 0


def upgrade(
    client: "Client",
    feature: Annotated[
        Pairs | None,
        option("Only this feature, to that level. May be repeated.", metavar="NAME=LEVEL"),
    ] = None,
    dry_run: Annotated[
        bool, option("Only show the levels, and whether they can be raised.")
    ] = False,
    finalize: Annotated[
        bool, option("Raise the levels: nodes of older versions are refused from then on.")
    ] = False,
) -> None:
    """Raise feature levels after all nodes run the new version.

    Without --finalize it only shows what can be raised. Levels cannot be lowered again.
    """
    levels = {name: _level(name, text) for name, text in (feature or {}).items()} or None
    if finalize or levels is not None:
        found = client.raise_features(levels, dry_run=dry_run or not finalize)
    else:
        found = client.cluster_features()
    show(
        found,
        ("FEATURE", "LEVEL", "FINALIZED", "ALL NODES SUPPORT", "MEANING"),
        rows_of(found.features, "name", "level", "is_finalized", _levels, "meaning"),
        drop=("MEANING",),
    )


def _level(name: str, text: str) -> int:
    if not text.isdigit():
        raise Failure(f"--feature {name}={text}: the level is a number")
    return int(text)


def _levels(feature: "FeatureBody") -> str:
    low, high = feature.min_level, feature.max_level
    if low > high:
        return "no level"
    return str(low) if low == high else f"{low} to {high}"
