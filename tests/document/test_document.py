"""One document, every reader: the same cells on pages, terminals, in Markdown, CSV, notebooks."""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from scotoma.document import (
    Album,
    Card,
    Chart,
    Column,
    Document,
    ExamplePair,
    Facts,
    Filter,
    Interval,
    Noted,
    Pictures,
    Section,
    Table,
    Unit,
    Verbatim,
    show,
)
from scotoma.document.charts import drawings, filled, self_contained
from scotoma.document.html import html_page
from scotoma.document.text import document_text, markdown_text, text_table

HOSTILE = "<script>alert(1)</script>|=\u202e`x`"
LONG = "a group whose name has many words, more than a line of a chart can hold, all of them needed"
COLUMNS = (
    Column("variant", "Variant"),
    Column("group", "Group"),
    Column("n", "n", "count"),
    Column("dense", "Dense", "rate"),
    Column("compressed", "Compressed", "rate"),
    Column("change", "Change, points", "points", drawn=True),
)
CHANGE = Interval(0.2334, 0.19, 0.29, 1798)
ROWS: list[dict[str, Any]] = [
    {
        "variant": variant,
        "group": group,
        "n": 1798,
        "dense": Interval(0.0166, 0.004, 0.068, 1798),
        "compressed": Interval(0.25, 0.2, 0.3, 1798, note="few events"),
        "change": CHANGE if group != LONG else Interval(None, reason="no events"),
    }
    for variant in ("int8", "pruned")
    for group in ("everyone", HOSTILE, LONG)
]  # fmt: skip
TABLE = Table("groups", "Error of each group", COLUMNS, ROWS, "Share of wrong answers.", stub=2)
DOCUMENT = Document(
    "digits",
    "2 variants",
    [
        Section("verdict", "Verdict", ["int8 fails."], verdict="FAIL", steps=["Retrain."]),
        Section(
            "groups",
            "Who is affected?",
            [HOSTILE],
            [Chart("rates", "Rates", "Rings: dense.", TABLE, "rates", by="variant"), TABLE],
        ),
        Section("words", "Words", parts=[Facts([("CIE", "an example")])], folded=True),
    ],
)


@pytest.mark.parametrize(
    ("cell", "unit", "text"),
    [
        (Interval(0.0413, -0.003, 0.05), "points", "+4.13 [−0.30, +5.00]"),
        (Interval(-0.0413, -0.05, 0.003), "points", "−4.13 [−5.00, +0.30]"),
        (Interval(12.844, 0.09, math.inf), "percent", "+1,284.4% [+9.0, +∞]"),
        (Interval(0.004, 0.001, 0.0049), "rate", "0.40% [0.10, 0.49]"),
        (Interval(0.00004, 0.00001, 0.00005), "rate", "0.004% [0.001, 0.005]"),
        (Interval(0.8124, math.nan, 0.9), "number", "0.812, at most 0.900"),
        (Interval(0.8124, None, None, reason="one model"), "number", "0.812 (one model)"),
        (Interval(math.nan, reason="no negatives"), "rate", "no negatives"),
        (Interval(None), "rate", "undefined (no reason was recorded)"),
        (Interval(1234.5, 1100.25, 1300.0), "score", "1,234 [1,100, 1,300]"),
        (Noted(Interval(-0.02, -0.03, -0.01), "98% to 96%"), "points",
         "−2.00 [−3.00, −1.00] (98% to 96%)"),
        (0.0, "points", "0.00"),
        (2.5, "count", "2.5"),
        (math.nan, "p", "not tested"),
        (0.0002, "p", "<0.001"),
        (2_400_000, "bytes", "2.4 MB"),
        (None, "rate", ""),
    ],
)  # fmt: skip
def test_a_cell_says_its_number_its_interval_or_why_it_has_none(
    cell: Any, unit: Unit, text: str
) -> None:
    assert str(show(cell, unit)) == text


def test_what_a_note_above_says_no_cell_repeats() -> None:
    number = Interval(0.5, note="few events; one model a side", reason="no interval: one model")
    known = ("one model a side", "no interval: one model")
    assert str(show(number, "rate", known)) == "50.00% (few events)"


def test_every_reader_gets_every_number_with_its_interval() -> None:
    for made in (html_page(DOCUMENT), document_text(DOCUMENT), markdown_text(DOCUMENT)):
        text = made.replace('</span> <span class="ends">', " ")
        assert text.count("1.66% [0.40, 6.80]") >= len(ROWS)
        assert text.count("+23.34 [+19.00, +29.00]") >= 4
        assert "no events" in text


def test_csv_and_frame_hold_the_numbers_unrounded() -> None:
    read = list(csv.DictReader(io.StringIO(TABLE.csv())))
    assert [float(row["dense_high"]) for row in read] == [0.068] * len(ROWS)
    assert read[2]["change"] == ""
    assert read[2]["change_reason"] == "no events"
    frame = TABLE.frame()
    assert isinstance(frame, pl.DataFrame)
    assert frame["change_low"].to_list() == [0.19, 0.19, None] * 2


def test_a_table_without_rows_has_its_columns() -> None:
    empty = Table("none", "", COLUMNS, [])
    assert empty.csv().split(",")[0] == "variant"
    assert empty.frame().columns[-1] == "change"


def test_names_are_text_for_every_reader() -> None:
    page = html_page(DOCUMENT)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "\u202e" not in document_text(DOCUMENT)
    assert "\\|=" in markdown_text(DOCUMENT)
    formula = Table("t", "", [Column("g", "g")], [{"g": "=1+1"}])
    assert formula.csv().splitlines()[1] == "'=1+1"


def test_a_terminal_shows_80_cells_a_line_and_no_number_is_lost() -> None:
    lines = text_table(TABLE)
    assert max(map(len, lines)) <= 80
    assert sum("+23.34 [+19.00, +29.00]" in line for line in lines) == 4


def test_a_reader_picks_the_variant_of_a_chart_and_names_are_whole() -> None:
    chart = DOCUMENT.sections[1].parts[0]
    assert isinstance(chart, Chart)
    drawn = drawings(chart)
    assert [one.choice for one in drawn] == ["int8", "pruned"]
    for word in LONG.split():
        assert word in drawn[0].svg
    assert html_page(DOCUMENT).count('type="radio"') == 2


def test_equal_documents_give_equal_pages() -> None:
    assert html_page(DOCUMENT) == html_page(DOCUMENT)


def test_a_page_links_its_files_and_says_how_many_rows_are_there() -> None:
    short = replace(TABLE, most=2)
    page = html_page(
        Document("d", sections=[Section("s", "S", parts=[short])]), {"groups": "tables/groups.csv"}
    )
    assert "2 of 6 rows; all are in" in page
    assert 'href="tables/groups.csv"' in page
    assert text_table(short)[-1] == "and 4 more"


def test_notebooks_show_tables() -> None:
    shown = TABLE._repr_html_()
    assert "+23.34" in shown
    assert "<script" not in shown


ALBUM = Album({"e1": b"GIF8", "strip": b"\x89PNG\r\n\x1a\n" + bytes(16)})
PAIR = ExamplePair(
    f"cat: {HOSTILE}",
    [
        Card("CIE", "e1", [("dense", "cat 9/10", True)], HOSTILE, ALBUM.take("e1", HOSTILE)),
        Card("Not a CIE", "e2", [("int8", "dog 3/10", False)], texts=[("Question", HOSTILE)]),
    ],
    sifted={"class": ["0", "2"]},
)
GALLERY = Pictures(
    "gallery",
    {"int8": [PAIR], "pruned": []},
    Table("examples", "Examples", [Column("e", "Example")], [{"e": "e1"}]),
    [Filter("class", "True class", [("0", "cat"), ("2", HOSTILE)])],
    {"pruned": "Nothing changes."},
)


def test_pictures_and_text_to_copy_stand_on_a_page_as_what_they_are() -> None:
    """Names are text in attributes too; the script that sifts comes only where it is needed."""
    parts = [GALLERY, ALBUM.take("strip", "a strip"), Verbatim("card", "To copy", HOSTILE)]
    facts = Facts([("", HOSTILE), ("CIE", "an example")], "The data", "data")
    shown = Document("x", sections=[Section("s", "S", parts=[*parts, facts])])
    page = html_page(shown, {"examples": "tables/examples.csv"})
    assert "<script>alert" not in page
    assert page.count('data-class="0 2"') == 1
    assert page.count("data:image/gif;base64,R0lGOA==") == 1
    assert 'href="tables/examples.csv"' in page
    assert page.count('<input type="radio" name="pictures-gallery"') == 2
    assert "The gallery: sifting" in page
    assert "The gallery: sifting" not in html_page(DOCUMENT)
    assert [table.id for table in shown.tables()] == ["examples"]
    text = markdown_text(shown)
    assert f"- {HOSTILE}" in text
    assert "- **CIE**: an example" in text


def test_a_table_that_shows_no_row_is_a_link_to_its_file() -> None:
    shown = Document("x", sections=[Section("s", "S", parts=[replace(TABLE, most=0)])])
    page = html_page(shown, {"groups": "tables/groups.csv"})
    assert "<table" not in page
    assert f"{TABLE.caption}: <a " in " ".join(page.split())


def test_pages_that_belong_together_link_to_each_other() -> None:
    page = html_page(Document("x", pages=[("a.html", "A"), ("b.html", HOSTILE)], page="b.html"))
    assert page.count('aria-current="page"') == 1
    assert 'href="a.html"' in page


def test_what_does_not_fit_stands_below_its_row_four_spaces_in() -> None:
    columns = (Column("g", "group"), Column("n", "n", "count"), Column("why", "because"))
    rows = [{"g": "old", "n": 12, "why": "a reason that is long, " * 4}]
    assert text_table(Table("t", "", columns, rows))[:2] == ["group   n", "old    12"]
    below = text_table(Table("t", "", columns, rows))[2:]
    assert [line[:5].rstrip() for line in below] == [
        "    b",
        *["    " + line[4] for line in below[1:]],
    ]


def test_rows_of_a_chart_are_as_high_as_the_longest_name_needs() -> None:
    def step(name: str) -> int:
        table = Table("t", "", COLUMNS, [ROWS[0] | {"group": name}])
        chart = Chart("c", "", "", table, "rates")
        height: dict[str, int] = filled(chart, list(table.rows))["height"]
        return height["step"]

    assert step("everyone") == 28
    assert step(LONG) >= 15 * len(LONG) / 30


def test_a_drawing_of_its_own_has_colours_paper_and_a_name() -> None:
    chart = Chart("c", "", "", replace(TABLE, rows=ROWS[:1]), "rates")
    svg = self_contained(drawings(chart)[0].svg, 'Rates "of" all')
    assert "var(--figure" not in svg
    assert 'aria-label="Rates &#34;of&#34; all"' in svg
    widths = re.findall(r'<svg [^>]*width="(\d+)"[^>]*viewBox="-44 0 (\d+) ', svg)
    assert len(widths) == 1
    assert widths[0][0] == widths[0][1]
    assert '<rect x="-44" width="100%" height="100%" fill="#fff"/>' in svg
