"""Held against a dictionary that does the same in the obvious way."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.ids import Timestamp
from goqueue.queue.lease import Lease
from goqueue.queue.message_states import RUN_MIN, MessageStates, within

END = 60
LEASES = [Lease(number, "ann", Timestamp(0), Timestamp(1)) for number in range(3)]

offsets = st.integers(0, END)
ranges = st.tuples(offsets, offsets).map(lambda pair: (min(pair), max(pair)))
steps = st.one_of(
    st.tuples(st.just("put"), ranges, st.sampled_from(LEASES)),
    st.tuples(st.just("take"), ranges, st.none()),
    st.tuples(st.just("set"), ranges, st.sampled_from([*LEASES, 0, -1, 7])),
)


def held_offsets(pieces):
    return {offset: state for first, last, state in pieces for offset in range(first, last + 1)}


@given(st.lists(steps, max_size=30), ranges)
def test_held_is_a_dictionary_that_knows_ranges(done, asked):
    held, plain = MessageStates(), {}
    for kind, (first, last), state in done:
        span = range(first, last + 1)
        if kind == "put" and not any(offset in plain for offset in span):
            held.put(first, last, state)
            plain.update(dict.fromkeys(span, state))
        elif kind == "take":
            taken = {offset: plain.pop(offset) for offset in span if offset in plain}
            assert held_offsets(held.remove(first, last)) == taken
        elif kind == "set":
            held[first] = plain[first] = state
    first, last = asked
    assert dict(held.items()) == plain
    assert (len(held), bool(held)) == (len(plain), bool(plain))
    assert [held.get(offset) for offset in range(END)] == [plain.get(o) for o in range(END)]
    assert [offset in held for offset in range(END)] == [o in plain for o in range(END)]
    assert dict(held.iterate_waiting()) == {o: s for o, s in plain.items() if isinstance(s, int)}
    pieces = held.pieces(first, last)
    assert held_offsets(pieces) == {o: s for o, s in plain.items() if first <= o <= last}
    assert pieces == sorted(pieces, key=lambda piece: piece[0])
    above = [offset for offset in plain if first <= offset < last]
    assert held.lowest(first, last) == min(above, default=last)


def test_many_messages_of_one_lease_are_one_piece_until_one_of_them_ends():
    held = MessageStates()
    held.put(0, 999, LEASES[0])
    assert held.pieces(0, 5_000) == [(0, 999, LEASES[0])]
    assert held.remove(500, 500) == [(500, 500, LEASES[0])]
    assert held.pieces(0, 5_000) == [(0, 499, LEASES[0]), (501, 999, LEASES[0])]
    held.remove(RUN_MIN - 1, 499)
    assert [piece[:2] for piece in held.pieces(0, 499)] == [(o, o) for o in range(RUN_MIN - 1)]


def test_the_lowest_is_found_behind_a_wide_gap():
    held = MessageStates()
    held[10**12] = 0
    assert held.lowest(0, 10**15) == 10**12
    assert held.lowest(10**12 + 1, 10**15) == 10**15


def test_within_looks_through_the_smaller_side():
    assert within({5: 0, 10**12: 0}, 0, 10**15) == [5, 10**12]
    assert within(set(range(1000)), 3, 5) == [3, 4, 5]
    assert within({}, 0, 10**15) == []
