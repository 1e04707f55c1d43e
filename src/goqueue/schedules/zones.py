"""Time zones by their IANA names, and what somebody who wrote another name may have meant."""

import difflib
import re
from datetime import tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from goqueue.schedules.errors import Mistake

UTC_NAME: Final = "UTC"
NAME_LENGTH_MAX: Final = 64

# Large cities, and abbreviations, that the database does not list by themselves.
_CITIES: Final = {
    zone: words.split()
    for zone, words in {
        "Africa/Johannesburg": "cape_town pretoria durban",
        "America/Chicago": "dallas houston austin minneapolis",
        "America/Los_Angeles": "san_francisco seattle san_diego las_vegas pst pdt",
        "America/New_York": "boston washington miami atlanta philadelphia edt",
        "America/Sao_Paulo": "rio_de_janeiro brasilia",
        "America/Toronto": "ottawa",
        "Asia/Bangkok": "hanoi",
        "Asia/Dubai": "abu_dhabi",
        "Asia/Jerusalem": "tel_aviv",
        "Asia/Karachi": "lahore islamabad rawalpindi faisalabad peshawar quetta pkt",
        "Asia/Kolkata": "mumbai bombay delhi new_delhi bangalore bengaluru chennai hyderabad ist",
        "Asia/Riyadh": "jeddah mecca medina",
        "Asia/Shanghai": "beijing peking shenzhen guangzhou",
        "Asia/Tokyo": "osaka kyoto yokohama jst",
        "Europe/Berlin": "munich muenchen hamburg frankfurt cologne koeln stuttgart",
        "Europe/London": "manchester edinburgh glasgow birmingham bst",
        "Europe/Madrid": "barcelona valencia seville",
        "Europe/Moscow": "saint_petersburg st_petersburg",
        "Europe/Rome": "milan naples turin",
        "Europe/Zurich": "geneva basel bern",
        "Pacific/Auckland": "wellington christchurch",
    }.items()
}
_BY_CITY: Final = {city: zone for zone, cities in _CITIES.items() for city in cities}
_OFFSET: Final = re.compile(r"(?:utc|gmt)?\s*([+-])0?(\d{1,2})(?::?00)?", re.IGNORECASE)


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    """As they are written, by how they look in lower case."""
    return {name.lower(): name for name in sorted(available_timezones())}


@lru_cache(maxsize=1024)
def zone_of(name: str) -> tzinfo:
    """Of a name without mistakes."""
    return ZoneInfo(name)


def find_zone_mistakes(name: str) -> list[Mistake]:
    if name == UTC_NAME or _names().get(name.lower()) == name:
        return []
    shown = name if len(name) <= NAME_LENGTH_MAX else name[:NAME_LENGTH_MAX] + "…"
    text = f"{shown!r} is no time zone of the IANA database"
    return [Mistake("timezone", text, suggest_zone(name[:NAME_LENGTH_MAX]))]


def suggest_zone(name: str) -> str:
    """The zone of that city, the one that is written nearly so, or the one with that offset."""
    names = _names()
    wanted = name.strip().lower().replace(" ", "_")
    if wanted in names:
        return names[wanted]
    city = wanted.rsplit("/", 1)[-1]
    if city in _BY_CITY:
        return _BY_CITY[city]
    offset = _OFFSET.fullmatch(name.strip())
    if offset is not None:  # whose signs are those of POSIX: west is positive
        sign = "-" if offset[1] == "+" else "+"
        return names.get(f"etc/gmt{sign}{offset[2]}", "")
    by_city = [each for each in names if each.rsplit("/", 1)[-1] == city]
    near = by_city or difflib.get_close_matches(wanted, list(names), n=1, cutoff=0.8)
    if near:
        return names[near[0]]
    cities = difflib.get_close_matches(city, list(_BY_CITY), n=1, cutoff=0.8)
    return _BY_CITY[cities[0]] if cities else ""
