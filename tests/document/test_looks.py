"""How exactly things look: every unit, limit and constant of `scotoma.document`, to the character.

Modules are executed anew here, so that the constants at their top belong to the tests below.
"""

from __future__ import annotations

import base64
import importlib
import importlib.util
import math
from types import ModuleType
from typing import Any

import pytest

from scotoma.document import Card, Column, Document, ExamplePair, Interval, Pictures, Section, Table


def anew(name: str) -> ModuleType:
    """A module of its own, executed from its source."""
    importlib.import_module(f"scotoma.document.{name}")  # which its dataclasses look up
    spec = importlib.util.find_spec(f"scotoma.document.{name}")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NUMBERS: list[tuple[Any, float, str]] = [
    ("rate", 0.25, "25.00%"),
    ("rate", 0.0004999, "0.050%"),
    ("rate", 0.0005, "0.05%"),
    ("rate", 0.00005, "0.005%"),
    ("rate", 0.0000499, "0.0050%"),
    ("rate", 0.0, "0.00%"),
    ("points", 0.0413, "+4.13"),
    ("points", -0.0413, "\N{MINUS SIGN}4.13"),
    ("points", 25.0, "+2,500.00"),
    ("extent", 0.029, "2.9 points"),
    ("extent", -0.0034, "\N{MINUS SIGN}0.3 points"),
    ("percent", 0.1234, "+12.3%"),
    ("number", 1.2345, "1.234"),
    ("change", -0.5, "\N{MINUS SIGN}0.500"),
    ("ratio", 1.5, "1.50"),
    ("effect", 0.8, "+0.80"),
    ("score", 31.4159, "31.42"),
    ("score", 0.00031, "0.0003100"),
    ("score", 314159.0, "314,159"),
    ("score", 0.0, "0.000"),
    ("score", 1e-12, "1.000e−12"),
    ("score_change", 3.14159, "+3.142"),
    ("seconds", 12.345, "12.35 s"),
    ("rate", math.inf, "+∞%"),
    ("change", -math.inf, "\N{MINUS SIGN}∞"),
    ("count", 1798, "1,798"),
    ("count", 12.5, "12.5"),
    ("count", 0.126, "0.13"),
    ("printed", -94.14, "\N{MINUS SIGN}94.14"),
    ("p", 0.001, "0.001"),
    ("p", 0.00099, "<0.001"),
    ("p", 0.0391, "0.039"),
    ("bytes", 999, "999 B"),
    ("bytes", 1000, "1.0 kB"),
    ("bytes", 99_949, "99.9 kB"),
    ("bytes", 99_950, "100 kB"),
    ("bytes", 999_999, "1,000 kB"),
    ("bytes", 1_000_000, "1.0 MB"),
    ("bytes", 999_999_999, "1,000 MB"),
    ("bytes", 1_000_000_000, "1.0 GB"),
    ("bytes", 999_999_999_999, "1,000 GB"),
    ("bytes", 1_000_000_000_000, "1.0 TB"),
    ("duration", 0.94, "< 1 s"),
    ("duration", 0.95, "0.9 s"),
    ("duration", 2.0, "2 s"),
    ("duration", 9.94, "9.9 s"),
    ("duration", 9.95, "10 s"),
    ("duration", 89.9, "90 s"),
    ("duration", 90.0, "1.5 min"),
    ("duration", 5399.9, "90 min"),
    ("duration", 5400.0, "1.5 h"),
    ("duration", 129_599.9, "36 h"),
    ("duration", 129_600.0, "1.5 days"),
    ("duration", 47_336_399.9, "548 days"),
    ("duration", 47_336_400.0, "1.5 years"),
    ("duration", 20 * 31_557_600.0, "20 years"),
]


def test_a_number_in_its_unit() -> None:
    cells = anew("cells")
    assert [(unit, x, cells.show(x, unit).value) for unit, x, _ in NUMBERS] == NUMBERS


def test_the_shortest_of_three_ends_decides_no_digits() -> None:
    cells = anew("cells")
    assert cells.show(math.nan, "p").value == "not tested"
    assert str(cells.show(Interval(0.0001, 0.00001, 0.0004), "rate")) == "0.010% [0.001, 0.040]"
    assert str(cells.show(Interval(0.01, None, 0.02), "rate")) == "1.00%, at most 2.00"
    assert str(cells.show(Interval(0.01, 0.005, None), "rate")) == "1.00%"
    assert str(cells.show(Interval(1e-12, 0.0, 0.0), "change")) == "+0.000 [0.000, 0.000]"
    assert cells.finite_ends(Interval(0.0123456789, -math.inf, 0.5), "rate") == (
        1.23457, None, 50.0,
    )  # fmt: skip
    assert cells.finite_ends(Interval(0.5), "text") == (0.5, None, None)
    assert cells.Interval(0.5).n == 0


def test_a_brief_number_has_one_decimal_and_without_a_sign_the_longer_half_of_its_interval() -> (
    None
):
    show = anew("cells").show
    assert str(show(Interval(0.92, 0.905, 0.931), "rate", brief=True)) == "92.0% ±1.5"
    assert str(show(Interval(0.92, 0.91, 0.935), "rate", brief=True)) == "92.0% ±1.5"
    assert str(show(Interval(0.04, 0.026, 0.055), "points", brief=True)) == "+4.0 [+2.6, +5.5]"
    assert str(show(Interval(20.0, 19.5, 20.75), "score", brief=True)) == "20.00 ±0.75"
    assert str(show(Interval(0.0003, 0.0001, 0.0004), "rate", brief=True)) == "0.03% ±0.02"
    assert str(show(Interval(0.92, reason="one model"), "rate", brief=True)) == "92.0% (one model)"
    assert show(0.92, "rate", brief=True).value == "92.0%"


def test_names_in_a_chart_break_at_30_columns_and_rows_have_15_pixels_a_line() -> None:
    charts = anew("charts")
    columns = (Column("group", "Group"), Column("dense", "Dense", "rate"))

    def filled(name: str) -> dict[str, Any]:
        rows = [{"group": name, "dense": Interval(0.25, 0.2, math.inf)}]
        chart = charts.Chart("c", "", "", Table("t", "", columns, rows), "rates")
        spec: dict[str, Any] = charts.filled(chart, rows)
        return spec

    assert filled("a")["height"]["step"] == 28
    whole, broken = "a" * 20 + " " + "b" * 9, "a" * 20 + " " + "b" * 10
    assert filled(whole)["data"]["values"] == [
        {"group": whole, "dense": 25.0, "dense_low": 20.0, "dense_high": None,
         "dense_text": "25.00%"}
    ]  # fmt: skip
    assert filled(broken)["data"]["values"][0]["group"] == "a" * 20 + "\n" + "b" * 10
    assert filled("\n".join(["a"] * 3))["height"]["step"] == 28
    assert filled(" ".join(["a" * 30] * 3))["height"]["step"] == 3 * 15 + 4
    assert filled("x\x00\x07\ud800\ufffe")["data"]["values"][0]["group"] == "x" + "\ufffd" * 4


def test_names_that_look_alike_are_numbered() -> None:
    names = anew("charts")._names(["a\x00", "a\x1b", "a\x07", "b"])
    assert list(names.values()) == ["a\ufffd", "a\ufffd (2)", "a\ufffd (3)", "b"]


def test_a_drawing_on_paper_has_44_pixels_of_room_on_both_sides() -> None:
    charts = anew("charts")
    svg = '<svg class="x" width="100.5" height="20" viewBox="0 0 100.5 20" id="a"><g/></svg>'
    assert charts.self_contained(svg, "A") == (
        '<svg class="x" width="188.5" height="20" viewBox="-44 0 188.5 20" id="a">'
        '<rect x="-44" width="100%" height="100%" fill="#fff"/><g/></svg>'
    )


def test_the_value_that_stands_first_is_drawn_first() -> None:
    charts = anew("charts")
    columns = (Column("variant", "Variant"), Column("group", "Group"), Column("dense", "", "rate"))
    rows = [
        {"variant": name, "group": "all", "dense": Interval(0.25, 0.2, 0.3)}
        for name in ("int8", "pruned", "both")
    ]
    chart = charts.Chart(
        "c", "", "", Table("t", "", columns, rows), "rates", by="variant", first="pruned"
    )
    assert [one.choice for one in charts.drawings(chart)] == ["pruned", "int8", "both"]
    assert charts.drawings(chart)[0].svg.count('<svg role="img" aria-labelledby="figure-c-says"')


def test_an_interval_is_drawn_160_wide_8_from_the_edge_on_one_axis() -> None:
    html = anew("html")
    axis = html.ColumnAxis(-0.5, 1.5, "change")
    assert [axis.at(x) for x in (-9.0, -0.5, 0.0, 0.333, 1.5, 9.0)] == [
        8.0, 8.0, 44.0, 68.0, 152.0, 152.0,
    ]  # fmt: skip
    assert axis.ends() == ("\N{MINUS SIGN}0.500", "+1.500")
    marks = [
        axis.mark(Interval(0.5, *ends))
        for ends in [(0.25, 1.0), (-0.25, 1.0), (0.0, 1.0), (-0.5, 0.0), (-0.5, -0.1), (None, 1.0)]
    ]
    assert [mark.beyond for mark in marks] == [True, False, False, False, True, False]
    assert (marks[0].zero, marks[0].value, marks[0].low, marks[0].high) == (44.0, 80.0, 62.0, 116.0)
    assert (marks[5].low, marks[5].high) == (None, None)
    assert axis.mark(Interval(math.nan)) is None
    assert axis.mark("text") is None


def test_a_column_has_one_axis_with_0_on_it() -> None:
    html = anew("html")
    column = Column("d", "d", "points", drawn=True)

    def axis(*numbers: Interval) -> Any:
        return html.column_axis(Table("t", "", (column,), [{"d": one} for one in numbers]), column)

    assert (axis(Interval(0.2, 0.1, 0.3)).low, axis(Interval(0.2, 0.1, 0.3)).high) == (0.0, 0.3)
    assert (axis(Interval(-0.2, -0.4)).low, axis(Interval(-0.2, -0.4)).high) == (-0.4, 0.0)
    assert (axis(Interval(0.0)).low, axis(Interval(0.0)).high) == (0.0, 0.01)
    assert axis(Interval(None, reason="none")) is None


def test_a_drawn_column_and_four_pairs_of_examples_stand_on_a_page() -> None:
    html = anew("html")
    columns = (Column("g", "g"), Column("d", "d", "points", drawn=True))
    table = Table("t", "", columns, [{"g": "all", "d": Interval(0.2, 0.1, 0.3)}])
    page = html.html_page(Document("x", sections=[Section("s", "S", parts=[table])]))
    assert 'viewBox="0 0 160 16"' in page
    examples = Table("e", "Examples", (Column("e", "Example"),), [{"e": "1"}])
    pairs = [ExamplePair(f"pair {n}", [Card("CIE", str(n), [])]) for n in range(6)]
    gallery = Pictures("g", {"int8": pairs}, examples, [], {})
    shown = html.html_page(Document("x", sections=[Section("s", "S", parts=[gallery])]))
    assert "<summary>2 more</summary>" in shown
    assert shown.index("pair 3") < shown.index("<summary>2 more</summary>") < shown.index("pair 4")


def test_lines_have_80_cells_names_16_and_notes_an_indent_of_4() -> None:
    lines = anew("lines")
    long = "n" * 100
    assert lines.table_lines(["g", "n"], [[long, "7", ""]], right=1) == [
        "g" + " " * 78 + "n",
        "n" * 76 + "…  7",
    ]
    assert lines.table_lines(["g", "n"], [["a", "7", "b" * 74]], right=1)[1] == "a  7  " + "b" * 74
    assert lines.table_lines(["g", "n"], [["a", "7", "b" * 75]], right=1)[1:] == [
        "a  7", "    " + "b" * 75,
    ]  # fmt: skip
    head = ["g", *(f"{at}" * 15 for at in range(1, 6))]
    row = ["n" * 30, *(f"{at}" for at in range(1, 6)), ""]
    assert lines.table_lines(head, [row], right=1) == [
        "g" + " " * 30 + "  ".join(f"{at}" * 15 for at in range(1, 4)),
        "n" * 28 + "…" + "1".rjust(17) + "2".rjust(17) + "3".rjust(17),
        "    444444444444444 4; 555555555555555 5",
    ]
    assert lines.table_lines(["n" * 39, "m" * 39], [["1", "2", ""]], right=0)[0] == (
        "n" * 39 + "  " + "m" * 39
    )
    assert lines.table_lines(["n" * 39, "m" * 40], [["1", "2", ""]], right=0)[0] == "n" * 39
    assert lines.table_lines(["n"], [["10", "b" * 77]], right=0)[1:] == [
        "10", "    " + "b" * 76, "    b",
    ]  # fmt: skip
    assert lines.wrapped("a" * 78 + " b", later="  ") == ["a" * 78, "  b"]


def test_a_terminal_table_ends_its_numbers_where_text_begins() -> None:
    text = anew("text")
    columns = (
        Column("g", "group"), Column("n", "n", "count"), Column("of", "of"),
        Column("m", "m", "count"), Column("why", "because"), Column("then", ""),
    )  # fmt: skip
    rows = [{"g": "old", "n": 4, "of": "x", "m": None, "why": "few", "then": "more"}] * 3
    assert text.text_table(Table("t", "", columns, rows, most=1)) == [
        "group  n  of  m",
        "old    4   x     because few; more",
        "and 2 more",
    ]
    assert text.text_table(Table("t", "", columns[:1], rows[:1])) == ["group", "old"]


def test_a_page_has_room_for_two_and_a_half_million_characters_of_images() -> None:
    pictures = anew("pictures")
    gif, webp = "data:image/gif;base64,", "data:image/webp;base64,"
    most = 2_500_000 - len(gif) - len(webp)

    def taken(extra: int) -> list[str]:
        """Images whose addresses have 2,500,000 characters, and `extra` more."""
        second = 4 * 300_000
        first = most + extra - second
        assert first % 4 == 0
        data = {"a": b"GIF8".ljust(first // 4 * 3, b" "), "b": b"RIFF".ljust(second // 4 * 3, b" ")}
        album = pictures.Album(data)
        return [album.take("a").reason, album.take("b").reason]

    assert taken(-3) == ["", ""]
    assert taken(1) == ["", "image left out to keep this page small"]


@pytest.mark.parametrize(
    ("width", "height", "small"), [(127, 1, True), (1, 127, True), (128, 1, False), (1, 128, False)]
)
def test_pixels_of_png_below_128_are_seen_as_squares(width: int, height: int, small: bool) -> None:
    sides = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    png = b"\x89PNG\r\n\x1a\n" + bytes(7) + b"\xff" + sides + b"\xff"
    picture = anew("pictures").Album({"a": png}).take("a", "a word")
    assert (picture.small, picture.says) == (small, "a word")
    assert picture.uri == f"data:image/png;base64,{base64.b64encode(png).decode()}"


def test_what_is_no_picture_is_said() -> None:
    album = anew("pictures").Album({"svg": b"<svg>", "gif": b"GIF8", "empty": b""})
    assert album.take("svg").reason == "no image (of its kind: PNG, JPEG, GIF and WebP are shown)"
    assert album.take("empty").reason == album.take("other").reason == "no image"
    assert not album.take("gif").small
