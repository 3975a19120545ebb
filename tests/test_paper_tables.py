"""The tables of papers from a run: the paper's own figures, the run's, and what is missing."""

from __future__ import annotations

import pytest

from scotoma.commands.paper_pages import as_markdown, as_text
from scotoma.papers import Grid, PaperTable
from scotoma.published import pie


def test_a_published_table_keeps_every_printed_figure():
    grid = Grid.published("paper", pie().table2, rows="sparsity")
    assert {row[0]: row[1:] for row in grid.rows} == pie().table2.rows
    text = "\n".join(as_text("", [PaperTable(name="Table 2", title="", run=grid)]))
    for cells in pie().table2.rows.values():
        assert any(
            line.split()[1:] == ["-" if c is None else f"{c:,}" for c in cells]
            for line in text.splitlines()
        )


def test_a_wide_table_goes_on_below_itself_within_80_cells():
    columns = ("variant", *(f"quite a long heading {i}" for i in range(20)))
    grid = Grid("wide", columns, (("prune-0.9", *(float(i) for i in range(20))),))
    lines = list(as_text("head", [PaperTable(name="T", title="", run=grid)]))
    assert max(map(len, lines)) <= 80
    rows = [line.split()[1:] for line in lines if line.startswith("prune-0.9")]
    assert [float(cell) for row in rows for cell in row] == list(range(20))


def test_names_of_others_are_no_markup():
    grid = Grid("c", ("variant", "class"), (("a|b", "<i>"),))
    lines = list(as_markdown("", [PaperTable(name="T", title="", run=grid)]))
    assert "| `a\\|b` | `<i>` |" in lines


def test_a_table_has_rows_or_says_what_is_missing():
    with pytest.raises(ValueError, match="or say what is missing"):
        PaperTable(name="T", title="", run=None)
