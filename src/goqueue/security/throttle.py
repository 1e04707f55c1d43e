"""Who has to wait before the next try to log in: those who failed too often.

    a user at an address    after 5 failures
    an address              after 20, of any users      (an IPv6 network /64 counts as one)
    a user                  after 100, at any addresses

From there on each failure doubles the time until the next try is looked at, up to `WAIT_MAX_NS`; a
try before that is refused without a look at its password.  A user that has logged in from an
address is never refused so there, whatever others do: else whoever guesses could lock it out; its
wrong passwords are answered later and later instead.  After `FORGET_NS` without a failure all is
forgotten.  Whether a user exists makes no difference.  Everything is bounded: what was not seen for
the longest goes.
"""

import ipaddress
from collections import OrderedDict
from typing import Final, Generic, TypeVar

from goqueue.model.ids import Instant

SECOND_NS: Final = 1_000_000_000
WAIT_FIRST_NS: Final = SECOND_NS
WAIT_MAX_NS: Final = 60 * SECOND_NS
FORGET_NS: Final = 900 * SECOND_NS
KNOWN_NS: Final = 30 * 86_400 * SECOND_NS  # for so long a place is a user's own
ENTRIES_MAX: Final = 10_000
DOUBLED_MAX: Final = 4  # times, of the answer to a wrong password
FREE_OF_PAIR: Final = 5
FREE_OF_ADDRESS: Final = 20
FREE_OF_USER: Final = 100

KeyT = TypeVar("KeyT")
_Pair = tuple[str, str]


class LoginThrottle:
    def __init__(self) -> None:
        self._pairs: _Failures[_Pair] = _Failures(FREE_OF_PAIR)
        self._addresses: _Failures[str] = _Failures(FREE_OF_ADDRESS)
        self._users: _Failures[str] = _Failures(FREE_OF_USER)
        self._known: OrderedDict[_Pair, Instant] = OrderedDict()  # places of users

    def wait_ns(self, user: str, host: str, now: Instant) -> int:
        """How long until this try may be made; 0: it may be made now."""
        place = network_of(host)
        if self._is_known((user, place), now):
            return 0
        return max(
            self._pairs.wait_ns((user, place), now),
            self._addresses.wait_ns(place, now),
            self._users.wait_ns(user, now),
        )

    def delay_factor(self, user: str, host: str) -> int:
        """How many times longer than usual the answer to a wrong password waits."""
        count = self._pairs.count((user, network_of(host)))
        return 1 << min(max(0, count - FREE_OF_PAIR), DOUBLED_MAX)

    def note_failure(self, user: str, host: str, now: Instant) -> None:
        place = network_of(host)
        self._pairs.add((user, place), now)
        if not self._is_known((user, place), now):
            self._addresses.add(place, now)
            self._users.add(user, now)

    def note_success(self, user: str, host: str, now: Instant) -> None:
        pair = (user, network_of(host))
        self._pairs.forget(pair)
        self._known.pop(pair, None)
        self._known[pair] = now
        if len(self._known) > ENTRIES_MAX:
            self._known.popitem(last=False)

    def _is_known(self, pair: _Pair, now: Instant) -> bool:
        at = self._known.get(pair)
        return at is not None and now - at < KNOWN_NS

    @property
    def entry_count(self) -> int:
        """Addresses and users that failed lately."""
        return len(self._pairs) + len(self._addresses) + len(self._users)


class _Failures(Generic[KeyT]):
    def __init__(self, free: int) -> None:
        self._free = free
        self._entries: OrderedDict[KeyT, tuple[int, Instant]] = OrderedDict()  # count, last one

    def __len__(self) -> int:
        return len(self._entries)

    def count(self, key: KeyT) -> int:
        return self._entries.get(key, (0, 0))[0]

    def wait_ns(self, key: KeyT, now: Instant) -> int:
        found = self._entries.get(key)
        if found is None or now - found[1] > FORGET_NS or found[0] < self._free:
            return 0
        count, last = found
        doubled = min(count - self._free, 10)  # times
        return max(0, last + min(WAIT_FIRST_NS << doubled, WAIT_MAX_NS) - now)

    def add(self, key: KeyT, now: Instant) -> None:
        count, last = self._entries.pop(key, (0, now))
        self._entries[key] = (1 if now - last > FORGET_NS else count + 1), now
        if len(self._entries) > ENTRIES_MAX:
            self._entries.popitem(last=False)

    def forget(self, key: KeyT) -> None:
        self._entries.pop(key, None)


def network_of(host: str) -> str:
    """One client has a whole network of IPv6 to itself."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 4:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
