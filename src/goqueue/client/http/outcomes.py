"""What became of each message of a publish request.

all went well    200   the results
some failed      207   the results, with errors among them
all failed       4xx   the first one's error, with the results in its details
"""

from typing import Final

import msgspec

from goqueue.api.messages import PublishResult
from goqueue.client.errors import PublishIncomplete, Refused

RESULTS: Final = "results"


def results_in(error: Refused) -> list[PublishResult]:
    """The results that came with an error; raises the error when there are none."""
    try:
        return msgspec.convert(error.details[RESULTS], list[PublishResult])
    except (KeyError, msgspec.ValidationError):
        raise error from None


def all_published(results: list[PublishResult]) -> list[PublishResult]:
    """The results when nothing failed; raises `PublishIncomplete` otherwise."""
    problems = [each.error for each in results if each.error is not None]
    if problems:
        raise PublishIncomplete(
            f"{len(problems)} of {len(results)} messages were not published;"
            f" the first because {problems[0].message}",
            results,
        )
    return results
