"""`scotoma gate`."""

from __future__ import annotations

import json
from pathlib import Path

from scotoma.commands.asking import Answer, TextOptions, argument, option


class GateOptions(TextOptions):
    """What is judged, and by which rules."""

    run: str = argument("Folder of a finished audit, or s3://BUCKET/PREFIX.")
    rules: Path | None = option(None, "Gate file (YAML). Default: the built-in rules.")
    margin: float | None = option(
        None, "Largest rise of an error rate that passes the built-in rules: 0.02 for two points.",
        gt=0, lt=1,
    )  # fmt: skip
    as_of: str | None = option(
        None, "Date on which waivers are judged, YYYY-MM-DD. Default: today."
    )
    previous: str | None = option(
        None, "Previous audit, which this one must not be worse than: a folder or s3://."
    )
    variant: str | None = option(
        None, "Variant that is shipped: the exit code is its own, not the worst."
    )


def gate(options: GateOptions) -> Answer:
    """Judge a finished audit: PASS, UNSURE or FAIL for every variant.

    Exit codes: 0 pass, 1 fail, 2 usage or rules, 3 unsure with on_unsure: fail, 4 unusable data,
    5 internal error. Writes gate.json (--json prints it), junit.xml and summary.md (--markdown)
    into the run.
    """
    from scotoma.config.gate import chosen_rules, day
    from scotoma.run.judging import Judging
    from scotoma.steps.verdict import judge_folder

    judging = Judging(chosen_rules(options.rules, options.margin), day(options.as_of))
    judged = judge_folder(options.run, judging, options.previous, options.variant)
    verdict = f"verdict {judged.gate.verdict}, {judged.place}"
    text = judged.markdown if options.form in ("markdown", "html") else judged.summary
    content = json.loads(judged.content)
    return Answer(text, content, [*judged.notes, verdict], judged.exit_code)
