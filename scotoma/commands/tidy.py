"""`scotoma tidy`."""

from __future__ import annotations

from pathlib import Path

from scotoma.commands.asking import Answer, Options, argument, option


class TidyOptions(Options):
    """Whose old audits give up what."""

    config: Path = argument("Configuration (YAML) with `retraining.keep`.")
    runs: str = option("runs", "Folder that holds the project's runs, or s3://BUCKET/PREFIX.")
    dry_run: bool = option(False, "Print what would be deleted; delete nothing.")
    as_of: str | None = option(
        None,
        "Day by which audits are old, YYYY-MM-DD. Default: today, unless no audit has ended for "
        "long.",
    )


def tidy(options: TidyOptions) -> Answer:
    """Delete models and predictions of old audits, as `retraining.keep` says.

    The newest audit, the newest that passed and unfinished audits keep theirs. Every audit keeps
    its numbers, verdict and report. --dry-run says what will be deleted.
    """
    from scotoma.config.gate import day
    from scotoma.document import Document, Section
    from scotoma.printable import printable
    from scotoma.steps.retention import audits_table, tidied

    as_of = day(options.as_of) if options.as_of else None
    audits, notes = tidied(options.config, options.runs, as_of, dry_run=options.dry_run)
    shown = [vars(one) | {"ended": one.ended and one.ended.isoformat()} for one in audits]
    content = {"version": 1, "dry_run": options.dry_run, "audits": shown, "notes": notes}
    freed = sum(one.size for one in audits if not one.kept) / 1e6
    done = "would be deleted" if options.dry_run else "deleted"
    lines = [f"note    {printable(note)}" for note in [*notes, f"{freed:,.1f} MB {done}"]]
    if not audits:
        return Answer("", content, lines)
    sections = [Section("audits", "", parts=[audits_table(audits, dry_run=options.dry_run)])]
    return Answer(Document("Audits of the project", sections=sections), content, lines)
