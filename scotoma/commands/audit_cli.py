"""The commands that audit and judge, as the command line takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scotoma.errors import ConfigError

__all__ = ["audit", "schema"]


def audit(
    config: Annotated[
        Path | None,
        typer.Argument(help="YAML file; without one, the embedded digits are audited."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(help="Folder of the run, or s3://BUCKET/PREFIX; default runs/PROJECT-DIGEST."),
    ] = None,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Same config, same machine: the same bytes.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="Overrides population.seed.", min=0, max=2**32 - 1)
    ] = None,
    models: Annotated[
        int | None, typer.Option(help="Overrides population.models.", min=1, max=255)
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Overrides source.data: a folder or s3:// prefix.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print audit.json instead of the summary.")
    ] = False,
    gate: Annotated[
        bool, typer.Option("--gate", help="Exit as `scotoma gate` does: 1 if the gate fails.")
    ] = False,
    rules: Annotated[
        Path | None, typer.Option(help="Gate file for the verdict; without one, default rules.")
    ] = None,
    as_of: Annotated[
        str | None, typer.Option(help="Day that expires waivers, YYYY-MM-DD; default today.")
    ] = None,
    allow_code: Annotated[
        bool,
        typer.Option("--allow-code", help="Run the code that source.model names, if it is code."),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume a run that is there; never begin one.")
    ] = False,
    step: Annotated[
        str | None, typer.Option(help="Run this one step, from what those before it left.")
    ] = None,
    previous: Annotated[
        str | None,
        typer.Option(help="The previous audit; default MLflow's newest, where `retraining:` asks."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the steps and their costs, do nothing.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no messages.")] = False,
) -> None:
    """Train, compress, predict, compare and report: the whole pipeline.

    A run that was interrupted resumes where it stands: repeat the command, or give --resume
    --out RUN alone. Steps: prepare, train, prune, quantize, predict, gather,
    divergence, bias, slices, verdict, report, log.
    """
    if step is not None and gate:
        raise ConfigError("--gate judges a whole audit, which --step does not run; leave one out")
    if dry_run:
        from scotoma.commands.forecast import print_dry_run

        print_dry_run(
            config, deterministic=deterministic, seed=seed, models=models, data=data,
            as_json=as_json, quiet=quiet, allow_code=allow_code,
        )  # fmt: skip
        return
    from scotoma.commands.audit import run_audit

    code = run_audit(
        config, out, deterministic=deterministic, seed=seed, models=models, data=data,
        as_json=as_json, quiet=quiet, rules=rules, as_of=as_of, allow_code=allow_code,
        resume=resume, step=step, previous=previous,
    )  # fmt: skip
    if gate:
        raise typer.Exit(code)


def schema(
    kind: Annotated[str, typer.Argument(help="config, gate, audit or verdict.")],
) -> None:
    """Print the JSON Schema of a configuration, gate file, audit.json or verdict (gate.json)."""
    from scotoma.commands.schema import run_schema

    run_schema(kind)
