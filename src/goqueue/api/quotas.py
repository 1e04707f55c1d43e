"""Quotas of users, client ids and IP addresses."""

from typing import Annotated, Final

import msgspec

DEFAULT: Final = "<default>"  # as Kafka's tools write it: whoever has no quota of its own

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=249)]


class QuotaBody(msgspec.Struct, frozen=True, omit_defaults=True):
    quotas: dict[str, float]
    """Rates a second, by name: producer_byte_rate, consumer_byte_rate, producer_message_rate,
    consumer_message_rate, request_rate; connection_creation_rate of an IP address."""
    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


class QuotaList(msgspec.Struct, frozen=True):
    quotas: list[QuotaBody]
    count: int


class QuotaChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    quotas: Annotated[dict[str, float | None], msgspec.Meta(min_length=1, max_length=20)]
    """Rates a second, by name; null removes one. What is not named stays as it is."""
    user: Name | None = None
    """A user's name; `<default>`: each user that has no quota of its own."""
    client_id: Name | None = None
    """The same for client ids, alone or together with a user."""
    ip: Name | None = None
    """The same for IP addresses."""
