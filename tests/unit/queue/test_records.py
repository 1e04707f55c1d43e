"""Records on disk keep their bytes: names in the code may change, tags and field names may not."""

import typing

import msgspec
import pytest

from goqueue.model.errors import CorruptData
from goqueue.queue.records import (
    GroupCreated,
    GroupRecord,
    PartitionSnapshot,
    QueueRecord,
    decode,
    decode_any,
    encode,
)
from tests.unit.queue.harness import WHERE, bench_of

# One record of each kind with all its fields, as a data directory has it.
STORED = {
    "group": (
        "0185a474797065a567726f7570a867726f75705f6964a167a873657474696e6773de0001ac6d6178"
        "5f6661696c7572657307aa67656e65726174696f6e02a96861735f626567756ec3"
    ),
    "group_forgotten": "0182a474797065af67726f75705f666f72676f7474656ea867726f75705f6964a167",
    "joined": (
        "0183a474797065a66a6f696e6564a867726f75705f6964a167a66d656d62657287a96d656d626572"
        "5f6964a16da9636c69656e745f6964a169ab636c69656e745f686f7374a168a6746f7069637391a1"
        "74b273657373696f6e5f74696d656f75745f6d7305aa67656e65726174696f6e02a96a6f696e6564"
        "5f617409"
    ),
    "left": "0183a474797065a46c656674a867726f75705f6964a167a96d656d6265725f6964a16d",
    "opened": (
        "0185a474797065a66f70656e6564a5776865726593a167a17403a8746f7069635f6964c410000000"
        "00000000000000000000000007a5666c6f6f7204a66865656465640b"
    ),
    "handed": (
        "018ca474797065a668616e646564a5776865726593a167a17403a86c656173655f696406a8636f6e"
        "73756d6572a163a2617401a8646561646c696e6502a566726573689193000402a5616761696e9105"
        "a7637572736f7273950505050505a670617373656491920702a67061726b65649193080263a46b65"
        "79739192002a"
    ),
    "finished": (
        "0186a474797065a866696e6973686564a5776865726593a167a17403a672616e67657391920004a6"
        "69735f61636bc2a7637572736f7273950505050505a76578706972656401"
    ),
    "returned": (
        "0187a474797065a872657475726e6564a5776865726593a167a17403a76f6666736574739105aa76"
        "697369626c655f61749108a56361757365a66e61636b6564a2617403a56572726f72a165"
    ),
    "extended": (
        "0185a474797065a8657874656e646564a5776865726593a167a17403a76f6666736574739105a261"
        "7403a8646561646c696e6509"
    ),
    "pinned": (
        "0184a474797065a670696e6e6564a5776865726593a167a17403a672616e67657391920004a56f77"
        "6e6572a27478"
    ),
    "pins_ended": (
        "0185a474797065aa70696e735f656e646564a5776865726593a167a17403a56f776e6572a27478a7"
        "636f6d6d697473c3a2617405"
    ),
    "died": (
        "0184a474797065a464696564a5776865726593a167a17403a76c657474657273919a05a872656a65"
        "63746564a165a16302010a141e04a56361757365a872656a6563746564"
    ),
    "buried": (
        "0185a474797065a6627572696564a5776865726593a167a17403a672616e67657391920505ad6c65"
        "74746572735f746f706963a5742e646c71ab6c6574746572735f656e6406"
    ),
    "floor": (
        "0185a474797065a5666c6f6f72a5776865726593a167a17403a5666c6f6f7204a566656e636506a6"
        "6865656465640c"
    ),
    "shortened": (
        "0186a474797065a973686f7274656e6564a5746f706963a174a9706172746974696f6e03a8746f70"
        "69635f6964c41000000000000000000000000000000007a3656e6404a566656e636506"
    ),
    "ledgers_forgotten": (
        "0183a474797065b16c6564676572735f666f72676f7474656ea867726f75705f6964a167a5746f706963a174"
    ),
    "forgotten": "0182a474797065a9666f72676f7474656ea5746f706963a174",
    "moving": (
        "0184a474797065a66d6f76696e67a5746f706963a5742e646c71a9706172746974696f6e03a56d6f"
        "766573919791920102a174c4100000000000000000000000000000000700090807"
    ),
    "taken": (
        "0186a474797065a574616b656ea5746f706963a5742e646c71a9706172746974696f6e03a672616e"
        "67657391920102a5666c6f6f7201a46b65707491920303"
    ),
    "resumed": "0182a474797065a7726573756d6564a2617405",
    "ledger": (
        "018fa474797065a66c6564676572a5776865726593a167a17403a8746f7069635f6964c410000000"
        "00000000000000000000000007a5666c6f6f7204a566656e636506a66865656465640ca763757273"
        "6f7273950505050505a66c6561736573919706a16301020191920004a27478a777616974696e6791"
        "920908a56c616e657391920001a46b6579739192002aa67061726b656491922a9108a7686973746f"
        "727991990502010a14a163a1650604a76c657474657273919a05a872656a6563746564a165a16302"
        "010a141e04a7736574746c656491920106"
    ),
    "ledger_part": (
        "0189a474797065ab6c65646765725f70617274a5776865726593a167a17403a66c65617365739197"
        "06a16301020191920004a27478a777616974696e6791920908a56c616e657391920001a46b657973"
        "9192002aa8646566657272656491922a9108a7686973746f727991990502010a14a163a1650604a4"
        "64656164919a05a872656a6563746564a165a16302010a141e04"
    ),
    "letters": (
        "0187a474797065a76c657474657273a5746f706963a5742e646c71a9706172746974696f6e03a566"
        "6c6f6f7201a574616b656e91920102a3656e6406a56d6f766573919791920102a174c41000000000"
        "00000000000000000000000700090807"
    ),
    "numbered": "0182a474797065a86e756d6265726564ad6e6578745f6c656173655f696407",
    "split": "0181a474797065a573706c6974",
    "dead_letters_planned": (
        "0187a474797065b4646561645f6c6574746572735f706c616e6e6564a5776865726593a167a17403"
        "a672616e67657391920102b1646561645f6c65747465725f746f706963a5742e646c71ab70726f64"
        "756365725f696409ae70726f64756365725f65706f636808a873657175656e636507"
    ),
    "coordinator": ("0182a474797065ab636f6f7264696e61746f72a565706f636805"),
}

# A group's settings with `hand_outs=written`, as `delivery_durability=async` was written at first.
WITH_HAND_OUTS = (
    "0185a474797065a567726f7570a867726f75705f6964a167a873657474696e6773de0002ac6d6178"
    "5f6661696c7572657307a968616e645f6f757473a77772697474656eaa67656e65726174696f6e02"
    "a96861735f626567756ec3"
)


@pytest.mark.parametrize("kind", STORED)
def test_a_stored_record_is_read_and_written_as_it_was(kind):
    data = bytes.fromhex(STORED[kind])
    assert encode(decode_any(data)) == data


def test_every_kind_of_record_is_covered():
    assert kinds_of(QueueRecord) | kinds_of(GroupRecord) == set(STORED)


@pytest.mark.parametrize("kind", STORED)
def test_a_ledger_has_no_records_of_groups(kind):
    data = bytes.fromhex(STORED[kind])
    if kind in kinds_of(QueueRecord):
        assert decode(data) == decode_any(data)
    else:
        with pytest.raises(CorruptData, match=kind):
            decode(data)


def kinds_of(union: object) -> set[object]:
    return {each.__struct_config__.tag for each in typing.get_args(union)}


def test_settings_with_the_former_name_of_delivery_durability_are_read():
    data = bytes.fromhex(WITH_HAND_OUTS)
    record = decode_any(data)
    assert isinstance(record, GroupCreated)
    assert record.settings is not None
    assert (record.settings.delivery_durability, record.settings.max_failures) == ("async", 7)
    assert (record.generation, record.has_begun) == (2, True)
    synced = decode_any(data.replace(b"\xa7written", b"\xa6synced"))
    assert isinstance(synced, GroupCreated)
    assert synced.settings is not None
    assert synced.settings.delivery_durability == "sync"


def test_a_setting_that_never_was_is_damage():
    data = bytes.fromhex(WITH_HAND_OUTS)
    with pytest.raises(CorruptData, match="hand_oats"):
        decode_any(data.replace(b"hand_outs", b"hand_oats"))


def test_records_that_knew_one_count_are_read():
    """As written before time-outs had a count of their own: failures were both."""
    queue = bench_of(1, backoff_base_ms=0)
    queue.lease("ann", 1)
    returned = queue.machine.decode(
        b"\1"
        + msgspec.msgpack.encode(
            {
                "type": "returned",
                "where": list(msgspec.structs.astuple(WHERE)),
                "offsets": [0],
                "visible_at": [0],
                "cause": "expired",
                "at": queue.now,
            }
        )
    )
    queue.machine.apply(returned)
    assert (queue.state.failures(0), queue.state.timeouts(0)) == (0, 1)
    kept, part = list(queue.machine.snapshot())[-2:]
    assert isinstance(kept, PartitionSnapshot)
    old = msgspec.to_builtins(part) | msgspec.to_builtins(kept)  # it was one record then
    old |= {"waiting": [[0, 0]], "history": msgspec.to_builtins(part)["history"]}
    old["history"] = [each[:-1] for each in old["history"]]
    old["letters"] = [[7, "rejected", "", "ann", 1, 0, 1, 2, 3]]
    old["topic_id"] = kept.topic_id.bytes
    read = queue.machine.decode(b"\1" + msgspec.msgpack.encode(old))
    assert isinstance(read, PartitionSnapshot)
    assert (read.history[0].deliveries, read.history[0].timeouts) == (1, 0)
    assert (read.dead[0].died_at, read.dead[0].timeouts) == (3, 0)
