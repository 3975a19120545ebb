"""What tests of the page share: a reader of HTML, and a hostile name."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br", "hr", "input"}
HOSTILE = (
    "</style></title><script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;\u202e{{7*7}}"
)


class Page(HTMLParser):
    """Tags, texts and tables of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[tuple[str, ...], str]] = []
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
            self._open.append(tag)
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
        assert last == tag, f"<{last}> ended by </{tag}>"
        if tag == "table":
            (caption,), *rows = self._rows
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

    @property
    def text(self) -> str:
        return " ".join(text for where, text in self.texts if not {"style", "script"} & set(where))
