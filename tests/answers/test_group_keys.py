"""Keys of groups: what was written is read back, whatever attributes and values hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scotoma.answers.group_keys import group_key, parse_group_key

NAMES = st.one_of(st.text(max_size=8), st.text(alphabet="=,\\a", max_size=8))


@given(values=st.lists(st.tuples(NAMES, NAMES), max_size=4))
def test_a_key_is_read_back_as_it_was_written(values: list[tuple[str, str]]) -> None:
    assert parse_group_key(group_key(values)) == tuple(values)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("all", ()),
        ("all=", (("all", ""),)),
        ("=", (("", ""),)),
        ("a=b=c", (("a", "b=c"),)),
        (r"a\=b=c\,d,e=\\", (("a=b", "c,d"), ("e", "\\"))),
    ],
)
def test_names_that_share_signs_with_the_syntax(
    key: str, values: tuple[tuple[str, str], ...]
) -> None:
    assert parse_group_key(key) == values
    assert group_key(values) == key


@given(text=st.text(alphabet="=,\\ab", max_size=12))
def test_any_text_is_read_without_an_error(text: str) -> None:
    """A gate file may hold any key; one that no group has is refused by name later."""
    assert all(len(pair) == 2 for pair in parse_group_key(text))
