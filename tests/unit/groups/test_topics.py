"""Regular expressions come from strangers."""

import time
from uuid import UUID

import pytest

from goqueue.groups import TopicFacts, Topics, Viewer, compile_regex
from goqueue.groups.errors import InvalidRegularExpression
from goqueue.model.ids import TopicId, TopicName
from goqueue.security import Principal


def view(*names: str) -> Topics:
    return Topics(
        TopicFacts(TopicId(UUID(int=number)), TopicName(name), 1)
        for number, name in enumerate(names, start=1)
    )


def test_a_pattern_matches_whole_names():
    assert view("orders", "orders-old", "my-orders").match("orders|.*old", None) == [
        "orders",
        "orders-old",
    ]


def test_a_pattern_matches_what_its_viewer_may_see():
    ann = Viewer(Principal("ann"), "127.0.0.1")
    topics = Topics(
        (TopicFacts(TopicId(UUID(int=n)), TopicName(name), 1) for n, name in enumerate("ab", 1)),
        lambda viewer, name: viewer == ann and name == "b",
    )
    assert topics.match(".*", ann) == ["b"]
    assert topics.match(".*", Viewer(Principal("eve"), "127.0.0.1")) == []
    assert topics.match(".*", None) == ["a", "b"]


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+", "([a-z]+)*x", "(.*a){20}"])
def test_a_pattern_made_to_backtrack_costs_no_time(pattern):
    started = time.perf_counter()
    for _ in range(10):
        view("a" * 248 + "!").match(pattern, None)
    assert time.perf_counter() - started < 1


@pytest.mark.parametrize("pattern", ["(", "a{2000}", r"(a)\1", "(?=a)", "x" * 1001, "a\ud800"])
def test_what_is_no_pattern_of_re2_is_refused(pattern):
    with pytest.raises(InvalidRegularExpression):
        compile_regex(pattern)


def test_a_refusal_names_the_mistake():
    with pytest.raises(InvalidRegularExpression, match=r"missing \)"):
        compile_regex("(orders")


def test_nested_repetition_is_refused_for_its_size():
    with pytest.raises(InvalidRegularExpression):
        compile_regex("((a{100}){100}){100}")
