import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.ids import GroupId, TopicName
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
    assert claims == {(Where(group, topic, partition), lease): [(offset, offset, attempt, 0)]}


def test_a_receipt_without_an_epoch_is_read_as_one_with():
    with_epoch, _ = read_receipts(["jobs:0:5:1:a-0.g"])
    without, malformed = read_receipts(["jobs:0:5:1:a.g"])
    assert not malformed
    assert with_epoch == without


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
        "jobs:0:1:1:1-.g",
        "jobs:0:1:1:1-x.g",
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


def test_receipts_in_a_row_are_one_claim():
    texts = [receipt("jobs", 0, offset, 1, 10, "g") for offset in (5, 6, 7, 9, 10, 10)]
    texts += [receipt("jobs", 0, 11, 2, 10, "g"), receipt("jobs", 1, 12, 2, 10, "g")]
    texts += [receipt("jobs", 0, 12, 1, 10, "g"), "nonsense", receipt("jobs", 0, 13, 1, 10, "g")]
    claims, malformed = read_receipts(texts)
    assert list(malformed) == [9]
    assert claims == {
        (Where(GroupId("g"), TopicName("jobs"), 0), 10): [
            (5, 7, 1, 0),
            (9, 10, 1, 3),
            (10, 10, 1, 5),
            (11, 11, 2, 6),
            (12, 12, 1, 8),
            (13, 13, 1, 10),
        ],
        (Where(GroupId("g"), TopicName("jobs"), 1), 10): [(12, 12, 2, 7)],
    }
