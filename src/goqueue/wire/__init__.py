"""Kafka's bytes and messages; no I/O.

`frames` has the envelope, `apis` the versions, `produce` and `fetch` the two hot messages,
`messages` all others.  Bytes that are not what they claim to be raise `MalformedRequest`, and
nothing else.
"""
