"""Sizes as people write them."""

import pytest

from goqueue.model.sizes import parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *(("4096", 4096), ("10MB", 10_000_000), ("10 mb", 10_000_000), ("1.5GiB", 3 << 29)),
        *(("0", 0), ("7B", 7), ("1KiB", 1024), ("2TB", 2 * 10**12)),
    ],
)
def test_sizes_are_bytes_or_have_a_unit(text: str, size: int):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "fast", "-1", "10XB", "1e9", "MB"])
def test_what_is_no_size_is_refused_with_the_way_to_write_it(text: str):
    with pytest.raises(ValueError, match="10MB"):
        parse_size(text)
