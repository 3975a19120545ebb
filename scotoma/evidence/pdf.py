"""How does a dossier become a PDF? By weasyprint, or else by a Chromium that is installed."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from html import escape
from pathlib import Path

from scotoma.errors import ConfigError, DataError
from scotoma.extras import needs

__all__ = ["page_of", "print_pdf"]

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS = 120
STYLE = """
@page { size: A4; margin: 18mm 15mm }
body { font: 10pt/1.4 sans-serif; color: #111 }
h1 { font-size: 17pt } h2 { font-size: 13pt; break-after: avoid }
table { border-collapse: collapse; margin: 0 0 1em; width: 100% }
tr { break-inside: avoid }
td, th { border: .5pt solid #999; padding: 2pt 4pt; text-align: left; overflow-wrap: break-word }
code { font-family: monospace; font-size: 9pt; overflow-wrap: anywhere }
td code { display: inline-block; min-width: 11ch }
td:nth-child(2):last-child code { min-width: 0 }
table:last-of-type { break-inside: avoid }
"""


def print_pdf(markdown: str, title: str) -> bytes:
    """Print Markdown as PDF; the bytes differ from one print to the next.

    Args:
        markdown: The text; HTML in it is shown, not obeyed.
        title: Title of the document.

    Raises:
        ConfigError: Neither weasyprint nor Chromium is installed.
        DataError: Chromium did not print it.
    """
    page = page_of(markdown, title)
    if importlib.util.find_spec("weasyprint") is not None:
        import weasyprint  # type: ignore[import-not-found,unused-ignore]

        return bytes(weasyprint.HTML(string=page).write_pdf())
    for name in BROWSERS:
        if browser := shutil.which(name):
            return _chromium(browser, page)
    raise ConfigError(
        "--pdf needs weasyprint or Chromium, got neither; pip install weasyprint, or print "
        "dossier.md with another program"
    )


def page_of(markdown: str, title: str) -> str:
    r"""Turn Markdown with tables into a page of HTML without scripts.

    Args:
        markdown: The text; HTML in it is shown, not obeyed.
        title: Title of the page.

    >>> "&lt;b&gt;" in page_of("<b>bold</b>", "x"), "<td>1</td>" in page_of("|a|\n|-|\n|1|", "x")
    (True, True)
    """
    markdown_it = needs("markdown_it", "evidence", "--pdf")
    body = markdown_it.MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body>{body}</body></html>"
    )


def _chromium(browser: str, page: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "page.html"), Path(folder, "page.pdf")
        source.write_text(page, encoding="utf-8")
        command = [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer",
            f"--user-data-dir={folder}/profile", f"--print-to-pdf={target}", source.as_uri(),
        ]  # fmt: skip
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
            return target.read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            raise DataError(
                f"{browser} must print the dossier, got {type(error).__name__}; leave --pdf out "
                "and print dossier.md with another program"
            ) from None
