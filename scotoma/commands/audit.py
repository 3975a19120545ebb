"""`scotoma audit`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from scotoma.commands.asking import Answer, Options, argument, option


class AuditOptions(Options):
    """What is audited, how far, and by which rules."""

    # fmt: off
    config: Path | None = argument(
        "Configuration (YAML). Default: an audit of the built-in digits.", None)
    out: str | None = option(
        None, "Folder of the run, or s3://BUCKET/PREFIX. Default: runs/PROJECT-DIGEST.")
    plan: bool = option(False, "Say what an audit will see, find and cost; run nothing.")
    planted: bool = option(
        False, "With --plan: audit harm of known size, and say what is found of it.")
    assumed_error: float | None = option(
        None, "With --plan: error rate to assume for the dense models, a fraction. Default: that "
        "of the predictions, where they are audited, else 0.05.", gt=0, lt=1)
    no_trial: bool = option(False, "With --plan: time no training steps, which takes about 5 s.")
    seed: int | None = option(None, "Replace population.seed.", ge=0, le=2**32 - 1)
    models: int | None = option(None, "Replace population.models.", ge=1, le=255)
    data: str | None = option(None, "Replace source.data: a folder or s3:// prefix.")
    deterministic: bool = option(
        False, "Make the same bytes from the same configuration and machine.")
    identical: int | None = option(
        None, "Train so many runs of one seed, one by one, and print how far they lie apart.",
        ge=2, le=255)
    both_modes: bool = option(
        False, "With --identical: train with and without --deterministic, and say what it costs.")
    gate: bool = option(False, "Exit with the code of `scotoma gate`: 1 if the gate fails.")
    rules: Path | None = option(None, "Gate file (YAML). Default: the built-in rules.")
    margin: float | None = option(
        None, "Largest rise of an error rate that passes the built-in rules: 0.02 for two points.",
        gt=0, lt=1,
    )  # fmt: skip
    as_of: str | None = option(
        None, "Date on which waivers are judged, YYYY-MM-DD. Default: today.")
    allow_code: bool = option(False, "Allow Python code that source.model names to run.")
    resume: bool = option(False, "Resume an interrupted run; refuse to start a new one.")
    step: str | None = option(
        None, "Run only this step, on the files of the steps before it. With --resume, `log` logs "
        "a finished audit to MLflow once more.")
    labels: Literal["given", "reviewed"] = option(
        "given", "With --step bias: `reviewed` measures again with the labels corrected in "
        "scotoma review, into RUN/reviewed/audit.json.")
    previous: str | None = option(
        None, "Previous audit to compare with. Default: the newest in MLflow, if the "
        "configuration has `retraining`.")

    def _misfits(self) -> Iterator[str]:
        yield from super()._misfits()
        planned = self.planted or self.assumed_error is not None or self.no_trial
        reviewed, named = self.labels == "reviewed", self.config is not None
        for holds, sentence in (
            (planned and not self.plan,
             "--planted, --assumed-error and --no-trial need --plan; add it"),
            (self.planted and named, "--planted makes its own data; leave CONFIG out"),
            (self.both_modes and (self.deterministic or not self.identical),
             "--both-modes needs --identical, and no --deterministic; correct that"),
            (self.gate and self.step is not None,
             "--gate judges a whole audit, which --step does not run; leave one out"),
            (reviewed and (self.step != "bias" or not self.out or named),
             "--labels reviewed measures a finished audit again; give --step bias and --out RUN, "
             "and no configuration"),
            (self.csv and not (self.plan or self.identical or reviewed),
             "--csv prints tables, and those of an audit are in RUN/tables; leave it out"),
        ):
            if holds:
                yield sentence
    # fmt: on


def audit(options: AuditOptions) -> Answer:
    """Train, compress, predict, compare and report: the whole pipeline.

    To resume an interrupted run, repeat the command, or give only --resume --out RUN.
    Steps: prepare, import_models, train, prune, quantize, predict, gather, robustness,
    divergence, bias, slices, verdict, report, log.
    """
    from scotoma.config.own_code import code_allowed
    from scotoma.config.reading import configuration
    from scotoma.run.judging import Judging
    from scotoma.steps import audit as audits

    out, step, quiet = options.out, options.step, options.quiet
    if options.planted:
        from scotoma.steps.planted import find_planted

        return find_planted(options.seed or 0)
    if options.labels == "reviewed":
        from scotoma.steps.review import measure_reviewed

        return measure_reviewed(str(out))
    if options.resume and out and options.config is None and step == "log":
        return audits.log_again(out, quiet=quiet)
    path = audits.resumed(out) if options.resume and not options.config else options.config
    replaced = options.model_dump(include={"deterministic", "seed", "data", "models"})
    config = configuration(path, **replaced)
    home = options.config.parent if options.config else Path()
    with code_allowed(config.source.network, home, allowed=options.allow_code):
        if options.plan:
            from scotoma.steps.plan import plan_audit

            trial = not options.no_trial
            return plan_audit(config, options.assumed_error, trial=trial, quiet=quiet)
        if options.identical:
            from scotoma.steps.identical import run_identical

            modes = (False, True) if options.both_modes else (options.deterministic,)
            return run_identical(config, out, options.identical, modes, quiet=quiet)
        terms = Judging.chosen(options.rules, options.margin, options.as_of)
        answer = audits.run_audit(
            config, out, terms, previous=options.previous, step=step, quiet=quiet,
            resume=options.resume,
        )  # fmt: skip
    return answer if options.gate else replace(answer, exit_code=0)
