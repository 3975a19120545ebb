"""How commands print tables: whatever names they hold, plain and aligned."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from scotoma.document.lines import table_lines
from scotoma.printable import printable

NAMES = ["[red]x[/red]", ":warning:", "\x1b[31mx", "貓" * 50, "x" * 300, "a\tb\nc", "", "[/]"]


@given(st.lists(st.sampled_from(NAMES) | st.text(max_size=30), min_size=1, max_size=5))
def test_any_names_stand_as_text_in_one_line_each(names: list[str]) -> None:
    lines = table_lines(["name", "n"], [[name, "12", ""] for name in names], right=1)
    assert len(lines) == len(names) + 1
    assert max(map(cell_len, lines)) <= 80
    assert all(line.endswith("12") and printable(line) == line for line in lines[1:])
    assert len({cell_len(line) for line in lines[1:]}) == 1


def test_markup_and_emoji_codes_are_text() -> None:
    lines = table_lines(["name"], [[name, "[b]note[/b]"] for name in NAMES[:2]], right=1)
    assert lines[1:] == ["[red]x[/red]  [b]note[/b]", ":warning:     [b]note[/b]"]


def test_numbers_are_never_cropped() -> None:
    lines = table_lines(["name", "a", "b"], [["n" * 40, "1" * 50, "2" * 60, ""]], right=1)
    assert lines[1].endswith(f"…  {'1' * 50}")
    assert lines[2:] == [f"    b {'2' * 60}"]


@pytest.mark.parametrize("name", ["FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE"])
def test_output_is_plain_whatever_the_environment_says(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "1")
    monkeypatch.setenv("COLUMNS", "20")
    assert table_lines(["name", "n"], [["a", "1", "note"]], right=1) == ["name  n", "a     1  note"]
