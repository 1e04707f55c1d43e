"""What the codecs raise: one error for all bytes that are not the message they claim to be."""

from goqueue.model.errors import InvalidRequest


class MalformedRequest(InvalidRequest):
    """Bytes that cannot be read as the request they claim to be.

    The stream cannot be trusted after this, so a listener closes the connection.
    """

    code = "malformed_request"
