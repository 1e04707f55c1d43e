"""What can be wrong with typed values."""

from goqueue.client.errors import ClientError


class NoColumns(ClientError):
    """A schema whose values cannot be columns; the text says why and what to do."""


class BadValue(ClientError):
    """A value is not what its schema says."""


class UnwritableRows(ClientError):
    """Rows cannot be written as values of a schema."""
