"""What tests of the page share: a reader of HTML, and how numbers should look."""

from __future__ import annotations

import re
import statistics
from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br", "hr", "input"}
NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
MEASURED = {"td", "th", "caption", "summary", "figcaption", "dl"}  # where numbers of an audit stand
# The words of the key are an example; figures have tests of their own.
MARKED = {("dl", "words"): "words", ("figure", "figure"): "plotted"}
HOSTILE = (
    "</style></title><script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;\u202e{{7*7}}"
)


class Page(HTMLParser):
    """Tags, texts and tables of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[tuple[str, ...], str]] = []
        self.figures: list[str] = []  # captions of the tables behind figures
        self.tables: dict[str, list[list[str]]] = {}
        self.details: list[tuple[bool, str]] = []
        self._open: list[str] = []
        self._rows: list[list[str]] = []
        self.feed(text)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(MARKED.get((tag, dict(attrs).get("class")), tag))
        if tag == "table":
            self._rows = [[]]
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th", "caption"):
            self._rows[-1].append("")
        elif tag == "details":
            self.details.append((("open", "") in attrs or ("open", None) in attrs, ""))

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        last = self._open.pop()
        assert last == tag or last in MARKED.values(), f"<{last}> ended by </{tag}>"
        if tag == "table":
            (caption,), *rows = self._rows
            if "plotted" in self._open:
                self.figures.append(" ".join(caption.split()))
                return
            self.tables[" ".join(caption.split())] = [
                [" ".join(cell.split()) for cell in row] for row in rows
            ]

    def handle_data(self, data):
        self.texts.append((tuple(self._open), data))
        if "summary" in self._open and data.strip():
            is_open, before = self.details[-1]
            self.details[-1] = (is_open, f"{before} {data.strip()}".strip())
        if {"td", "th", "caption"} & set(self._open):
            self._rows[-1][-1] += data

    def table(self, start: str) -> dict[str, list[str]]:
        """Rows of the one table whose caption starts so, by their first cell."""
        (rows,) = (rows for caption, rows in self.tables.items() if caption.startswith(start))
        return {row[0]: row[1:] for row in rows[1:]}

    @property
    def text(self) -> str:
        return " ".join(text for where, text in self.texts if not {"style", "script"} & set(where))


def walk(value):
    if isinstance(value, dict):
        for item in value.values():
            yield from walk(item)
    elif isinstance(value, list):
        for item in value:
            yield from walk(item)
    else:
        yield value


def printed(value: float) -> set[str]:
    """All the ways in which the page may print a number, without its sign."""
    sizes = {abs(value), 100 * abs(value), abs(1 - value) * 100}
    found = {f"{size:,.{digits}f}" for size in sizes for digits in (0, 1, 2, 3, 4, 5)}
    return found | ({f"{value:,.2f}".rstrip("0")} if value >= 0 else set())


def unknown_numbers(page: str, content: dict, *others: dict) -> list[str]:
    """Numbers in tables, facts, summaries and cards that the audit does not hold."""
    known = {"0.00", "0.001"}  # 0 on an axis, the limit under which p is "<0.001"
    for value in walk([content, *others]):
        if isinstance(value, str):
            known |= set(re.findall(NUMBER, value))
        elif value is not None and not isinstance(value, bool):
            known |= printed(value)
    for row in content["rows"].get("accuracy", ()):
        if len(row["models"]) > 1:
            known |= printed(statistics.stdev(row["models"]))
    for row in content["rows"].get("divergence", ()):
        counted = content["divergence"][row["variant"]]["cie"]  # of the others no count is kept
        known |= printed(counted["n"] - counted["cie"]["count"])
    for part in ("variants", "gallery"):
        for rows in content[part].values() if isinstance(content[part], dict) else [content[part]]:
            known.add(str(len(rows)))
    known.add(str(len(content["examples"]["classes"])))
    return [
        number
        for where, text in Page(page).texts
        if MEASURED & set(where) and not {*MARKED.values(), "code"} & set(where)
        for number in re.findall(NUMBER, text.replace("SHA-256", ""))
        if number not in known
    ]


def cell(estimate, *, factor=100.0, sign="", unit="%", digits=2) -> str:
    """An estimate as its cell should read; a second route to what the page prints."""
    note = f" {estimate['note']}".replace("; ", " ").rstrip()
    if estimate["value"] is None:
        return estimate["reason"]
    value, low, high = (float(estimate[key]) * factor for key in ("value", "low", "high"))
    digits += (max(map(abs, (value, low, high))) < 0.05) and value != 0
    texts = [f"{x:{sign},.{digits}f}" if x else f"{0:.{digits}f}" for x in (value, low, high)]
    reason = f" {estimate['reason']}" if estimate["reason"] else ""
    return f"{texts[0]}{unit} [{texts[1]}, {texts[2]}]{reason}{note}".replace("-", "−")


def points(estimate) -> str:
    return cell(estimate, sign="+", unit="")


def relative(estimate) -> str:
    return cell(estimate, sign="+", digits=1)
