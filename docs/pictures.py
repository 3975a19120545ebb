"""The pictures of README: the report and the terminal of one audit, in light and in dark.

    scotoma audit --out runs/pictures
    python docs/pictures.py runs/pictures

Writes `report-*.png` and `terminal-*.png` beside this file. Needs Chromium, playwright and Pillow.
"""

from __future__ import annotations

import datetime
import html
import io
import shutil
import sys
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from scotoma.audit import Audit, read_audit
from scotoma.config.gate import default_rules
from scotoma.document.text import document_text
from scotoma.report.summary import summary
from scotoma.verdict.gate import judge

HERE = Path(__file__).parent
SCHEMES = ("light", "dark")
COLOURS = 200  # of a picture: text and lines need no more, and a clone is smaller
TERMINAL = """<!doctype html><meta charset="utf-8"><style>
:root { color-scheme: light dark; --ground: #f6f7f9; --text: #191c21; --pass: #1a7058;
  --unsure: #7a5a00; --fail: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ground: #131519; --text: #e8eaee; --pass: #59c8a5;
  --unsure: #e0b84c; --fail: #ff8a80; } }
body { margin: 0; display: inline-block; background: var(--ground); color: var(--text); }
pre { margin: 0; padding: 24px 28px; font: 14px/1.45 "DejaVu Sans Mono", monospace; }
.PASS { color: var(--pass); } .UNSURE { color: var(--unsure); } .FAIL { color: var(--fail); }
b { font-weight: 700; }
</style><pre>%s</pre>"""


def main(run: Path) -> None:
    """Draw all four."""
    audit = read_audit(run / "audit.json")
    page = HERE / "terminal.html"
    page.write_text(TERMINAL % coloured(terminal(audit)), encoding="utf-8")
    try:
        with sync_playwright() as running:
            chromium = shutil.which("chromium") or shutil.which("chromium-browser")
            options = {"executable_path": chromium} if chromium else {}
            browser = running.chromium.launch(args=["--no-sandbox", "--disable-gpu"], **options)
            for scheme in SCHEMES:
                shoot(browser, run / "report.html", scheme, f"report-{scheme}.png", "")
                shoot(browser, page, scheme, f"terminal-{scheme}.png", "body")
            browser.close()
    finally:
        page.unlink()


def terminal(audit: Audit) -> str:
    """Return what the terminal shows at the end of the audit."""
    rules = default_rules(positive=audit.examples.positive is not None)
    judged = judge(audit, rules, datetime.date(2000, 1, 1))
    return f"$ scotoma audit\n\n{document_text(summary(audit, judged))}\n"


def coloured(text: str) -> str:
    """The same as HTML, every verdict at the start of a line in its colour."""
    lines = []
    for line in html.escape(text).splitlines():
        word = line.partition(" ")[0]
        if word in ("PASS", "UNSURE", "FAIL"):
            line = f'<b class="{word}">{word}</b>{line.removeprefix(word)}'
        lines.append(line)
    return "\n".join(lines)


def shoot(browser: Browser, file: Path, scheme: Any, name: str, part: str) -> None:
    """A picture of a page, or of a part of it, in few colours."""
    page = browser.new_page(viewport={"width": 1400, "height": 920}, color_scheme=scheme)
    page.goto(file.resolve().as_uri())
    page.wait_for_timeout(1000)  # the figures are drawn after the page is there
    picture = page.locator(part).screenshot() if part else page.screenshot()
    page.close()
    image = (
        Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    )
    image.save(HERE / name, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
