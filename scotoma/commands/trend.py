"""The trend command: one page of the audits of a project, from MLflow alone."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from scotoma.audit import plain
from scotoma.config import default_config, load_config
from scotoma.errors import ConfigError
from scotoma.jsonable import jsonable
from scotoma.report.timeline import Audited, audited
from scotoma.report.trend import render_trend
from scotoma.run import Run
from scotoma.storage.files import written
from scotoma.tracking import history, tracking_uri

__all__ = ["run_trend"]


def run_trend(project: str, out: Path, runs: str, *, as_json: bool, quiet: bool) -> None:
    """Draw the page, and say what it holds.

    Args:
        project: Name of a project, or the YAML file of one.
        out: The page to write.
        runs: The folder beside whose runs `mlflow.db` lies, where no server is named.
        as_json: Print the audits as JSON instead of where the page is.
        quiet: No messages.

    Raises:
        ScotomaError: MLflow does not know the project, or cannot be asked.
    """
    config = load_config(Path(project)) if Path(project).is_file() else default_config()
    name = config.project if Path(project).is_file() else project
    uri = tracking_uri(Run(Path(runs, "another"), config), dict(os.environ))
    if not uri:
        raise ConfigError("a trend is drawn from MLflow, which is off; name it in tracking.uri")
    logged = history(name, uri)
    with written(out) as temporary:
        temporary.write_text(render_trend(name, logged), encoding="utf-8")
    audits = [audited(one) for one in logged]
    if as_json:
        shown = {"version": 1, "project": name, "audits": list(map(_plain, audits))}
        sys.stdout.write(json.dumps(jsonable(shown), indent=1, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(f"{out}\n")
    if not quiet:
        counts = Counter(one.verdict or one.state for one in audits)
        said = ", ".join(f"{number} {what}" for what, number in counts.items())
        sys.stderr.write(f"note    {len(audits)} audits{': ' if said else ''}{said}\n")


def _plain(one: Audited) -> dict[str, Any]:
    """One audit as JSON values."""
    variants = [
        vars(variant)
        | {
            "top1": plain(variant.top1),
            "excess": plain(variant.excess),
            "worst": None if variant.worst is None else plain(variant.worst),
        }
        for variant in one.variants
    ]
    return vars(one) | {"at": one.at.isoformat(), "variants": variants}
