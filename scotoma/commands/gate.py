"""`scotoma gate`."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from scotoma.commands.asking import Answer, TextOptions, argument, option

if TYPE_CHECKING:
    from scotoma.audit import GateFile
    from scotoma.config.newest import RegisteredModel


class GateOptions(TextOptions):
    """What is judged, and by which rules."""

    run: str = argument("Folder of a finished audit, or s3://BUCKET/PREFIX.")
    rules: Path | None = option(
        None, "Gate file (YAML), or built-in. Default: as the run was last judged."
    )
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
    promote: str = option(
        "", "Version in MLflow's registry to tag with the verdict, models:/NAME@ALIAS or "
        "models:/NAME/VERSION; after PASS --alias moves to it.",
    )  # fmt: skip
    alias: str = option("audited", "Alias that --promote moves.")
    tracking: str = option("", "MLflow server of --promote. Default: MLFLOW_TRACKING_URI.")


def gate(options: GateOptions) -> Answer:
    """Judge a finished audit: PASS, UNSURE or FAIL for every variant.

    Exit codes: 0 pass, 1 fail, 2 usage or rules, 3 unsure with on_unsure: fail, 4 unusable data,
    5 internal error. Writes gate.json (--json prints it), junit.xml and summary.md (--markdown)
    into the run.
    """
    from scotoma.run.judging import Judging
    from scotoma.steps.verdict import judge_folder

    version = _version(options.promote) if options.promote else None
    judging = Judging.chosen(options.rules, options.margin, options.as_of)
    judged = judge_folder(options.run, judging, options.previous, options.variant)
    notes = [
        *judged.notes,
        f"rules   {judged.rules}",
        f"verdict {judged.gate.verdict}, {judged.place}",
    ]
    text = judged.markdown if options.form in ("markdown", "html") else judged.summary
    content = json.loads(judged.content)
    if version is not None:
        notes.append(f"mlflow  {_promoted(options, version, judged.gate)}")
    return Answer(text, content, notes, judged.exit_code)


def _version(address: str) -> RegisteredModel:
    from scotoma.config.newest import RegisteredModel
    from scotoma.errors import ConfigError

    with contextlib.suppress(ValueError):  # of an address that is none
        if version := RegisteredModel.parse(address):
            return version
    raise ConfigError(
        f"--promote must be models:/NAME@ALIAS or models:/NAME/VERSION, got {address!r}; name a "
        "version in MLflow's registry"
    )


def _promoted(options: GateOptions, version: RegisteredModel, gate: GateFile) -> str:
    from scotoma.errors import ConfigError
    from scotoma.tracking.registry import promote

    uri = options.tracking or os.environ.get("MLFLOW_TRACKING_URI", "")
    if not uri:
        raise ConfigError(
            "--promote needs MLflow's address; give --tracking or MLFLOW_TRACKING_URI"
        )
    shipped = [one.verdict for one in gate.variants if one.name == options.variant]
    verdict = shipped[0] if shipped else gate.verdict
    return promote(version, options.alias, gate, verdict, options.run, uri)
