"""`scotoma tidy`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scotoma.commands.shared import options
from scotoma.errors import ConfigError

if TYPE_CHECKING:
    from scotoma.document import Cell
    from scotoma.steps.retention import StoredAudit

__all__ = ["tidy"]


def tidy(
    config: Annotated[Path, typer.Argument(help="Configuration (YAML) with `retraining.keep`.")],
    runs: Annotated[
        str, typer.Option(help="Folder that holds the project's runs, or s3://BUCKET/PREFIX.")
    ] = "runs",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be deleted; delete nothing.")
    ] = False,
    as_of: Annotated[
        str | None,
        typer.Option(
            help="Day by which audits are old, YYYY-MM-DD. Default: today, unless no audit has "
            "ended for long."
        ),
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Delete models and predictions of old audits, as `retraining.keep` says.

    The newest audit, the newest that passed and unfinished audits keep theirs. Every audit keeps
    its numbers, verdict and report. What will be deleted is printed first.
    """
    from scotoma.commands.gate import day
    from scotoma.config import load_config
    from scotoma.document.jsonable import jsonable
    from scotoma.printable import printable
    from scotoma.steps.retention import delete_unkept, plan_deletion

    read = load_config(config)
    if read.retraining is None:
        raise ConfigError(
            f"{config} has no retraining.keep; write how many audits, or days, to keep"
        )
    keep, notes = read.retraining.keep, list[str]()
    audits = plan_deletion(read.project, runs, keep, as_of=day(as_of) if as_of else None)
    if not dry_run:
        audits = [one for one in audits if one.large and not one.kept]
    if audits and not as_json:
        from scotoma.document import Column, Table
        from scotoma.document.text import text_table

        columns = [
            Column("run", "run"), Column("ended", "ended"), Column("verdict", "verdict"),
            Column("size", "large files", "bytes"), Column("todo", ""),
        ]  # fmt: skip
        table = Table("audits", "", columns, list(map(_cells, audits)), stub=3)
        sys.stdout.write("\n".join(text_table(table)) + "\n")
        sys.stdout.flush()
    if not dry_run:
        from scotoma import storage
        from scotoma.run import Run
        from scotoma.tracking import tracking_uri

        beside = storage.join(runs, "another") if storage.is_remote(runs) else ""
        uri = tracking_uri(Run(Path(runs, "another"), read, beside), dict(os.environ))
        audits, notes = delete_unkept(audits, keep, uri)
    if as_json:
        shown = [vars(one) | {"ended": one.ended and one.ended.isoformat()} for one in audits]
        content = {"version": 1, "dry_run": dry_run, "audits": shown, "notes": notes}
        sys.stdout.write(json.dumps(jsonable(content), indent=1, ensure_ascii=False) + "\n")
    if not quiet:
        freed = sum(one.size for one in audits if not one.kept) / 1e6
        done = "would be deleted" if dry_run else "deleted"
        notes = [*notes, f"{freed:,.1f} MB {done}"]
        sys.stderr.write("".join(f"note    {printable(note)}\n" for note in notes))


def _cells(audit: StoredAudit) -> dict[str, Cell]:
    todo = "to be deleted" if audit.large else "deleted before"
    return {
        "run": audit.place.rpartition("/")[2],
        "ended": "" if audit.ended is None else f"{audit.ended:%Y-%m-%d %H:%M}",
        "verdict": audit.verdict,
        "size": audit.size,
        "todo": f"kept: {audit.kept}" if audit.kept else todo,
    }
