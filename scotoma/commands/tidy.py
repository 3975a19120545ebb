"""`scotoma tidy`."""

from __future__ import annotations

import datetime
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scotoma.commands import options
from scotoma.errors import ConfigError

if TYPE_CHECKING:
    from scotoma.stages.retention import StoredAudit

__all__ = ["tidy"]


def tidy(
    config: Annotated[Path, typer.Argument(help="Configuration (YAML) with `retraining.keep`.")],
    runs: Annotated[
        str, typer.Option(help="Folder that holds the project's runs, or s3://BUCKET/PREFIX.")
    ] = "runs",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be deleted; delete nothing.")
    ] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Delete models and predictions of old audits, as `retraining.keep` says.

    The newest audit, the newest that passed and unfinished audits keep theirs. Every audit keeps
    its numbers, verdict and report.
    """
    from scotoma.config import load_config
    from scotoma.jsonable import jsonable
    from scotoma.printable import printable

    read = load_config(config)
    if read.retraining is None:
        raise ConfigError(
            f"{config} has no retraining.keep; write how many audits, or days, to keep"
        )
    if dry_run:
        from scotoma.stages.retention import audits_of, sorted_out

        now = datetime.datetime.now(datetime.UTC)
        audits = sorted_out(audits_of(read.project, runs), read.retraining.keep, now)
        notes = list[str]()
    else:
        from scotoma import storage
        from scotoma.run import Run
        from scotoma.stages import retention
        from scotoma.tracking import tracking_uri

        beside = storage.join(runs, "another") if storage.is_remote(runs) else ""
        uri = tracking_uri(Run(Path(runs, "another"), read, beside), dict(os.environ))
        audits, notes = retention.delete_unkept(read.project, runs, read.retraining.keep, uri)
    if as_json:
        shown = [vars(one) | {"ended": one.ended and one.ended.isoformat()} for one in audits]
        content = {"version": 1, "dry_run": dry_run, "audits": shown, "notes": notes}
        sys.stdout.write(json.dumps(jsonable(content), indent=1, ensure_ascii=False) + "\n")
    elif audits:
        from scotoma.commands.text_table import table_lines

        rows = [_cells(one, dry_run=dry_run) for one in audits]
        header = ("run", "ended", "verdict", "large files")
        sys.stdout.write("\n".join(table_lines(header, rows, right=3)) + "\n")
    if not quiet:
        freed = sum(one.size for one in audits if not one.kept) / 1e6
        done = "would be deleted" if dry_run else "deleted"
        notes = [*notes, f"{freed:,.1f} MB {done}"]
        sys.stderr.write("".join(f"note    {printable(note)}\n" for note in notes))


def _cells(audit: StoredAudit, *, dry_run: bool) -> tuple[str, ...]:
    deleted = "to be deleted" if dry_run else "deleted"
    return (
        audit.place.rpartition("/")[2],
        "" if audit.ended is None else f"{audit.ended:%Y-%m-%d %H:%M}",
        audit.verdict,
        f"{audit.size / 1e6:,.1f} MB",
        f"kept: {audit.kept}" if audit.kept else deleted if audit.large else "deleted before",
    )
