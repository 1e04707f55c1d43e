import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.queue.receipts import read_receipts, receipt
from goqueue.queue.records import Where


@given(
    st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True),
    st.integers(0, 10**6),
    st.integers(0, 2**62),
    st.integers(1, 10**9),
    st.integers(1, 2**62),
    st.text(min_size=1, max_size=20),
)
def test_a_receipt_says_which_delivery_it_is_whatever_the_group_is_called(
    topic, partition, offset, attempt, lease, group
):
    text = receipt(topic, partition, offset, attempt, lease, group)
    claims, malformed = read_receipts([text])
    assert not malformed
    assert claims == {(Where(group, topic, partition), lease): [(offset, attempt, 0)]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "jobs",
        "jobs:0:1:1",
        "jobs:0:1:1:",
        "jobs:0:1:1:ff",
        "jobs:0:1:1:.g",
        "jobs:0:1:1:xyz.g",
        "jobs:-1:1:1:1.g",
        "jobs:٣:1:1:1.g",
        "jobs:0:²:1:1.g",
        "jobs:0:+3:1:1.g",
        "jobs:0:1_0:1:1.g",
        ":0:1:1:1.g",
        "jobs:0:" + "9" * 5000 + ":1:1.g",
    ],
)
def test_what_is_no_receipt_is_told_by_its_place(text):
    good = "jobs:0:5:1:a.g"
    claims, malformed = read_receipts([good, text, good])
    assert list(malformed) == [1]
    assert [claim.place for some in claims.values() for claim in some] == [0, 2]
