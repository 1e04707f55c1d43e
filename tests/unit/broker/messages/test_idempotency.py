"""An idempotency key as a producer of its own, and messages as its sequence."""

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.broker.messages.idempotency import FINGERPRINT_BITS, fingerprint_of, producer_id_of
from goqueue.log.producers import KEYED_PRODUCER_MIN

MESSAGES = st.lists(st.tuples(st.none() | st.binary(), st.none() | st.binary()), max_size=5)


@settings(max_examples=25)
@given(st.text())
def test_a_key_has_an_id_that_no_producer_is_given(key: str):
    producer_id = producer_id_of(key)
    assert KEYED_PRODUCER_MIN <= producer_id < 2**63
    assert producer_id == producer_id_of(key)


def test_keys_and_fingerprints_are_the_same_in_every_version():
    """Both are in logs: a repeat after an upgrade must find the first one."""
    assert producer_id_of("order-17") == 0x5E3A6B83239116EC
    assert fingerprint_of([(None, b"a")]) == 941_412_726


@settings(max_examples=25)
@given(MESSAGES)
def test_a_fingerprint_leaves_room_for_the_number_of_messages(messages: list[object]):
    fingerprint = fingerprint_of(messages)
    assert 0 <= fingerprint < 2**FINGERPRINT_BITS
    assert fingerprint == fingerprint_of(list(messages))


def test_other_messages_have_another_fingerprint():
    seen = [
        fingerprint_of(messages)
        for messages in (
            [(None, b"a")],
            [(b"", b"a")],
            [(None, b"a"), (None, b"a")],
            [(b"a", None)],
            [(None, b"b")],
        )
    ]
    assert len(set(seen)) == len(seen)
