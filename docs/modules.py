"""Write the table of packages in CONTRIBUTING.md from their docstrings: python docs/modules.py."""

from __future__ import annotations

import ast
import re
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GUIDE = ROOT / "CONTRIBUTING.md"
HEAD = f"{2 * '| package | the question that it answers '}|\n|---|---|---|---|\n"


def page() -> str:
    """The guide, with the table as the docstrings have it."""
    folders = [*sorted(ROOT.glob("scotoma/*/")), ROOT / "components", ROOT / "pipelines"]
    cells = [
        f"| `{folder.relative_to(ROOT)}` | {summary(folder / '__init__.py')} "
        for folder in folders
        if (folder / "__init__.py").exists()
    ]
    half = (len(cells) + 1) // 2
    rows = zip_longest(cells[:half], cells[half:], fillvalue="| | ")
    table = HEAD + "".join(f"{left}{right}|\n" for left, right in rows) + "\n"
    guide = GUIDE.read_text(encoding="utf-8")
    return re.sub(re.escape(HEAD) + r"(\|.*\n)*\n", lambda _: table, guide)


def summary(path: Path) -> str:
    """The first paragraph of a module's docstring, in one line."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


if __name__ == "__main__":
    GUIDE.write_text(page(), encoding="utf-8")
