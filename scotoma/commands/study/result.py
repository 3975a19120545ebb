"""`scotoma study result`."""

from __future__ import annotations

import sys

from scotoma.commands.shared import options
from scotoma.commands.study.check import Study

__all__ = ["result"]


def result(study: Study, as_json: options.Json = False, quiet: options.Quiet = False) -> None:
    """Open the key, analyse the answers as planned and write result.json.

    `scotoma report RUN` then shows it, if the study is in RUN/studies.
    """
    from scotoma.commands.study.answers import analyse
    from scotoma.commands.study.text import result_lines

    found, path = analyse(study)
    text = path.read_text(encoding="utf-8") if as_json else "\n".join(result_lines(found)) + "\n"
    sys.stdout.write(text)
    if not quiet:
        studies = path.absolute().parents[1]
        shown = f"; scotoma report {studies.parent} shows it" if studies.name == "studies" else ""
        sys.stderr.write(f"written to {path}{shown}\n")
