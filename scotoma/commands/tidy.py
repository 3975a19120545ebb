"""The tidy command: which audits of a project keep their models and predictions."""

from __future__ import annotations

import datetime
import json
import os
import sys
from pathlib import Path

from scotoma import storage
from scotoma.commands.tables import lines
from scotoma.config import load_config
from scotoma.errors import ConfigError
from scotoma.jsonable import jsonable
from scotoma.printable import printable
from scotoma.run import Run
from scotoma.stages.retention import Audited, audits_of, sorted_out, tidy
from scotoma.tracking import tracking_uri

__all__ = ["run_tidy"]


def run_tidy(path: Path, runs: str, *, dry_run: bool, as_json: bool, quiet: bool) -> None:
    """Delete what `retraining.keep` no longer keeps, and print which audits gave it up.

    Args:
        path: The configuration, which names the project and what is kept.
        runs: The folder that holds the folders of the runs, or `s3://BUCKET/PREFIX`.
        dry_run: Print every audit and what it would give up; delete nothing.
        as_json: Print JSON instead of the table.
        quiet: No messages.

    Raises:
        ScotomaError: The configuration does not say what is kept, or the runs cannot be listed.
    """
    config = load_config(path)
    if config.retraining is None:
        raise ConfigError(
            f"{path} must say what is kept, got no retraining.keep; write how many audits, or days"
        )
    keep, notes = config.retraining.keep, list[str]()
    if dry_run:
        now = datetime.datetime.now(datetime.UTC)
        shown = sorted_out(audits_of(config.project, runs), keep, now)
    else:
        beside = storage.join(runs, "another") if storage.is_remote(runs) else ""
        uri = tracking_uri(Run(Path(runs, "another"), config, beside), dict(os.environ))
        shown, notes = tidy(config.project, runs, keep, uri)
    if as_json:
        audits = [vars(one) | {"ended": one.ended and one.ended.isoformat()} for one in shown]
        found = {"version": 1, "dry_run": dry_run, "audits": audits, "notes": notes}
        sys.stdout.write(json.dumps(jsonable(found), indent=1, ensure_ascii=False) + "\n")
    elif shown:
        header = ("run", "ended", "verdict", "large files", "")
        sys.stdout.write("\n".join(lines(header, [_cells(one) for one in shown], right=4)) + "\n")
    if not quiet:
        freed = sum(one.size for one in shown if not one.kept)
        would = "would be" if dry_run else "were"
        notes = [*notes, f"{freed / 1e6:,.1f} MB {would} deleted"]
        sys.stderr.write("".join(f"note    {printable(note)}\n" for note in notes))


def _cells(audit: Audited) -> tuple[str, ...]:
    return (
        printable(audit.place.rpartition("/")[2]),
        "" if audit.ended is None else f"{audit.ended:%Y-%m-%d %H:%M}",
        audit.verdict,
        f"{audit.size / 1e6:,.1f} MB",
        f"kept: {audit.kept}" if audit.kept else "given up" if audit.large else "gave up before",
    )
