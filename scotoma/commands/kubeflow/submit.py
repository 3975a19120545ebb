"""`scotoma kubeflow submit`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from scotoma.commands.asking import Answer, argument, option
from scotoma.commands.kubeflow import SentOptions, WaitOptions
from scotoma.errors import ConfigError

RESUMING = {"resume", "endpoint", "namespace", "wait", "json_", "markdown", "html", "quiet"}
COMPILING = {"config", "dry_run", "rules", "seed", "data", "deterministic", "json_", "quiet"}


class SubmitOptions(SentOptions, WaitOptions):
    """What is sent, and where its audit is stored."""

    config: Path | None = argument("Configuration (YAML) with a section `kubeflow`.", None)
    out: str | None = option(
        None, "Where to store the audit: s3://BUCKET/PREFIX, or a folder of the volume."
    )
    dry_run: Path | None = option(None, "Write the pipeline to this file (YAML), and send nothing.")
    resume: str | None = option(
        None, "Resume the failed run of this id; finished models are not trained again."
    )
    experiment: str | None = option(
        None, "Experiment in Kubeflow. Default: kubeflow.experiment, then the project."
    )
    preflight: bool = option(
        False, "First try images, secrets, storage, MLflow and GPU in short tasks."
    )

    def _misfits(self) -> Iterator[str]:
        yield from super()._misfits()
        if self.resume is not None:
            yield from self._beside("--resume", RESUMING)
        elif self.config is None:
            yield "name a configuration (YAML), or the run to --resume"
        elif self.dry_run is not None:
            yield from self._beside("--dry-run", COMPILING)
        elif self.out is None:
            yield "give --out (where to store the audit), --dry-run or --resume"

    def _beside(self, name: str, allowed: set[str]) -> Iterator[str]:
        for other in {*self.changed()} - allowed:
            yield f"{name} and {self.written(other)} exclude each other; leave one out"


def submit(options: SubmitOptions) -> Answer:
    """Send an audit to Kubeflow, or resume a failed one; print the run's id.

    Credentials come from SCOTOMA_KFP_TOKEN, SCOTOMA_KFP_COOKIE or a service account's token.
    """
    from scotoma.pipelines.submission import (
        check_place,
        compiled,
        require_inputs,
        size_text,
    )

    if options.resume is not None:
        return _resumed(options, options.resume)
    assert options.config is not None
    config, kubeflow = options.audit(options.config)
    if options.dry_run is not None:
        file = options.dry_run
        if file.suffix not in (".yaml", ".yml"):
            raise ConfigError(f"--dry-run must be a .yaml file, got {file}; change its suffix")
        with compiled(config, kubeflow, options.rules) as definition:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(definition.read_bytes())
        wrote = f"wrote {file}; set its parameter run_uri to where the audit is stored"
        return Answer("", {"pipeline": str(file)}, [wrote, f"size  {size_text(file)}"])
    assert options.out is not None
    check_place(options.out, kubeflow, wait=options.wait)
    client = options.client(kubeflow)
    experiment = options.experiment or kubeflow.experiment or config.project
    with compiled(config, kubeflow, options.rules) as definition:
        require_inputs(config, kubeflow, options.say)
        if options.preflight:
            from scotoma.pipelines.preflight import run_preflight

            run_preflight(config, client, options.out, experiment, options.say)
        run = client.submit(definition, options.out, config.project, experiment)
        size = size_text(definition)
    from scotoma.pipelines.documents import run_values

    values = run_values(run, client)
    options.say(f"sent    {values['link']}")
    options.say(f"size    {size}")
    if run.mlflow:
        options.say(f"mlflow  {run.mlflow}")
    return options.waited(client, run.run_id) if options.wait else Answer(run.run_id, values)


def _resumed(options: SubmitOptions, run_id: str) -> Answer:
    from scotoma.pipelines.documents import run_values

    client = options.client()
    client.retry(run_id)
    if options.wait:
        return options.waited(client, run_id)
    return Answer(run_id, run_values(client.progress(run_id), client))
