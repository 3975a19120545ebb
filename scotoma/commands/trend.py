"""`scotoma trend`."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scotoma.commands.shared import options
from scotoma.errors import ConfigError

if TYPE_CHECKING:
    from scotoma.tracking.timeline import Audited

__all__ = ["trend"]


def trend(
    project: Annotated[str, typer.Argument(help="Name of a project, or its configuration (YAML).")],
    out: Annotated[Path, typer.Option(help="Page to write.")] = Path("trend.html"),
    runs: Annotated[
        str, typer.Option(help="Folder with mlflow.db, if no MLflow server is configured.")
    ] = "runs",
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Draw a project's audits over time, from MLflow: verdicts, worst groups and CIEs."""
    from scotoma.config import default_config, load_config
    from scotoma.document.html import html_page
    from scotoma.document.jsonable import jsonable
    from scotoma.run import Run
    from scotoma.storage.files import written
    from scotoma.tracking import history, tracking_uri
    from scotoma.tracking.timeline import audited
    from scotoma.tracking.trend import trend_document

    is_file = Path(project).is_file()
    config = load_config(Path(project)) if is_file else default_config()
    name = config.project if is_file else project
    uri = tracking_uri(Run(Path(runs, "another"), config), dict(os.environ))
    if not uri:
        raise ConfigError("trend reads MLflow, and tracking is off; set tracking.uri")
    logged = history(name, uri)
    with written(out) as temporary:
        temporary.write_text(html_page(trend_document(name, logged)), encoding="utf-8")
    audits = [audited(one) for one in logged]
    if as_json:
        content = {"version": 1, "project": name, "audits": list(map(_plain, audits))}
        sys.stdout.write(json.dumps(jsonable(content), indent=1, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(f"{out}\n")
    if not quiet:
        counts = Counter(one.verdict or one.state for one in audits)
        by_verdict = ", ".join(f"{number} {what}" for what, number in counts.items())
        total = f"{len(audits)} audit{'s' * (len(audits) != 1)}"
        sys.stderr.write(f"note    {total}{': ' * bool(counts)}{by_verdict}\n")


def _plain(one: Audited) -> dict[str, Any]:
    """One audit as JSON values."""
    from scotoma.audit import plain

    numbers = ("top1", "excess", "worst", "worst_relative")
    variants = [
        vars(variant)
        | {
            name: None if (number := getattr(variant, name)) is None else plain(number)
            for name in numbers
        }
        for variant in one.variants
    ]
    return vars(one) | {"at": one.at.isoformat(), "variants": variants}
