"""Which transaction has reserved messages: producer id, epoch and transactional id in one text.

    17:3:billing-1

Former versions wrote the transactional id alone.
"""

import re
from typing import Final, NamedTuple

from goqueue.model.markers import Marker

_TEXT: Final = re.compile(r"(\d{1,19}):(\d{1,5}):(.*)", re.DOTALL)


class Owner(NamedTuple):
    producer_id: int
    epoch: int
    transactional_id: str

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.epoch}:{self.transactional_id}"


def read_owner(text: str) -> Owner:
    """The owner; without producer when a former version wrote it."""
    found = _TEXT.fullmatch(text)
    return Owner(int(found[1]), int(found[2]), found[3]) if found else Owner(-1, -1, text)


def is_ended(text: str, marker: Marker) -> bool:
    """Whether the marker ends the transaction of this owner."""
    owner = read_owner(text)
    return owner.producer_id == marker.producer_id and owner.epoch <= marker.ended_epoch
