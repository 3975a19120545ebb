"""`scotoma pipeline compile`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scotoma.commands.pipeline import options

__all__ = ["compile_"]


def compile_(
    config: options.ConfigFile,
    out: Annotated[Path, typer.Option(help="Pipeline file (YAML) to write.")] = Path(
        "pipeline.yaml"
    ),
    rules: options.Rules = None,
    seed: options.Seed = None,
    data: options.Data = None,
    deterministic: options.Deterministic = False,
    quiet: options.Quiet = False,
) -> None:
    """Write the pipeline as YAML, to read or to upload by hand."""
    from scotoma.commands.pipeline.connection import Connection
    from scotoma.commands.pipeline.submission import Submission, size_text
    from scotoma.errors import ConfigError

    if out.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"--out must be a .yaml file, got {out}; change its suffix")
    submission = Submission(config, rules, seed, data, deterministic)
    audited, kubeflow = submission.read()
    with submission.definition(audited, kubeflow) as definition:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(definition.read_bytes())
    connection = Connection(None, None, as_json=False, quiet=quiet)
    connection.message(f"wrote {out}; set its parameter run_uri to where the audit is stored")
    connection.message(f"size  {size_text(out)}")
