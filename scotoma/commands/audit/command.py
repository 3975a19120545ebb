"""`scotoma audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from scotoma.commands.shared import options
from scotoma.errors import ConfigError

__all__ = ["audit"]


def audit(
    config: Annotated[
        Path | None,
        typer.Argument(help="Configuration (YAML). Default: an audit of the built-in digits."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            help="Folder of the run, or s3://BUCKET/PREFIX. Default: runs/PROJECT-DIGEST."
        ),
    ] = None,
    modes: Annotated[Literal["both"] | None, typer.Argument(hidden=True)] = None,
    deterministic: Annotated[
        bool,
        typer.Option(
            "--deterministic",
            help="Make the same bytes from the same configuration and machine. With --identical, "
            "`--deterministic both` trains with and without, and says what it costs.",
        ),
    ] = False,
    identical: Annotated[
        int | None,
        typer.Option(
            help="Train so many runs of one seed, one by one, and print how far they lie apart.",
            min=2,
            max=255,
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Replace population.seed.", min=0, max=2**32 - 1)
    ] = None,
    models: Annotated[
        int | None, typer.Option(help="Replace population.models.", min=1, max=255)
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Replace source.data: a folder or s3:// prefix.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print audit.json instead of the summary.")
    ] = False,
    gate: Annotated[
        bool,
        typer.Option("--gate", help="Exit with the code of `scotoma gate`: 1 if the gate fails."),
    ] = False,
    rules: options.Rules = None,
    as_of: options.AsOf = None,
    allow_code: options.AllowCode = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Resume an interrupted run; refuse to start a new one."),
    ] = False,
    step: Annotated[
        str | None, typer.Option(help="Run only this step, on the files of the steps before it.")
    ] = None,
    labels: Annotated[
        Literal["given", "reviewed"],
        typer.Option(
            help="With --step bias: `reviewed` measures again with the labels corrected in "
            "scotoma review, into RUN/reviewed/audit.json."
        ),
    ] = "given",
    previous: Annotated[
        str | None,
        typer.Option(
            help="Previous audit to compare with. Default: the newest in MLflow, if the "
            "configuration has `retraining`."
        ),
    ] = None,
    track_again: Annotated[
        bool,
        typer.Option(
            "--track-again", help="Only log the finished audit in --out to MLflow, once more."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the steps and their costs; run nothing.")
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Train, compress, predict, compare and report: the whole pipeline.

    To resume an interrupted run, repeat the command, or give only --resume --out RUN.
    Steps: prepare, import_models, train, prune, quantize, predict, gather, robustness,
    divergence, bias, slices, verdict, report, log.
    """
    if str(config) == "both" and modes is None:  # `--deterministic both` without CONFIG
        config, modes = None, "both"
    if modes and not (deterministic and identical):
        raise ConfigError("both stands after --deterministic and beside --identical; leave it out")
    if identical:
        from scotoma.commands.audit.identical import run_identical
        from scotoma.commands.shared.configuration import configuration, own_code

        chosen = configuration(config, deterministic=False, seed=seed, data=data)
        with own_code(chosen, config, allowed=allow_code):
            run_identical(
                chosen, out, identical, (False, True) if modes else (deterministic,),
                as_json=as_json, quiet=quiet,
            )  # fmt: skip
        return
    if step is not None and gate:
        raise ConfigError("--gate judges a whole audit, which --step does not run; leave one out")
    if track_again:
        if out is None or config is not None or step is not None:
            raise ConfigError(
                "--track-again logs a finished audit; give --out RUN, and neither a configuration "
                "nor --step"
            )
        from scotoma.commands.audit.run import log_again

        log_again(out, quiet=quiet)
        return
    if labels == "reviewed":
        if step != "bias" or out is None or config is not None:
            raise ConfigError(
                "--labels reviewed measures a finished audit again; give --step bias and --out "
                "RUN, and no configuration"
            )
        from scotoma.commands.audit.reviewed import measure_reviewed

        measure_reviewed(out, as_json=as_json, quiet=quiet)
        return
    if dry_run:
        from scotoma.commands.check.forecast import print_dry_run

        print_dry_run(
            config, deterministic=deterministic, seed=seed, models=models, data=data,
            as_json=as_json, quiet=quiet, allow_code=allow_code,
        )  # fmt: skip
        return
    from scotoma.commands.audit.run import run_audit

    code = run_audit(
        config, out, deterministic=deterministic, seed=seed, models=models, data=data,
        as_json=as_json, quiet=quiet, rules=rules, as_of=as_of, allow_code=allow_code,
        resume=resume, step=step, previous=previous,
    )  # fmt: skip
    if gate:
        raise typer.Exit(code)
