"""Record batches by offset."""

import pytest

from goqueue.client.errors import BadAnswer
from goqueue.client.kafka.reading import next_offset
from goqueue.model.batch import encode
from goqueue.model.record import Record


def test_batches_that_do_not_lead_on_are_an_error_and_no_loop():
    batch = encode([Record(offset=0, timestamp=1, key=None, value=b"v", headers=())], base_offset=3)
    assert next_offset(memoryview(batch), 0) == 4
    assert next_offset(memoryview(batch)[:-1], 0) == 0, "one that is cut off does not count"
    with pytest.raises(BadAnswer, match="offset 3 after offset 9"):
        next_offset(memoryview(batch), 9)
    nonsense = bytearray(batch)
    nonsense[8:12] = bytes(4)
    with pytest.raises(BadAnswer):
        next_offset(memoryview(nonsense), 0)
