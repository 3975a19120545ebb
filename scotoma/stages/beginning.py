"""How a run on a cluster begins: with its configuration, its gate file and the newest input."""

from __future__ import annotations

import datetime

from scotoma.config import Config, parse_config
from scotoma.config.gate import parse_rules
from scotoma.config.newest import Newest
from scotoma.runs import Run
from scotoma.stages.judged_by import Judging

__all__ = ["begun", "read_configuration"]


def read_configuration(text: str) -> Config:
    """The configuration that a pipeline holds, asking for the newest as it was written."""
    return parse_config(text, "the pipeline's configuration")


def begun(run_uri: str, config: Config, rules: str, *, newest: Newest | None) -> Run:
    """The run, with what it is to audit and what it is judged by, from today on.

    Args:
        run_uri: Its folder, or its `s3://BUCKET/PREFIX`.
        config: What is to be audited, without placeholders.
        rules: Gate file (YAML); empty for the default rules.
        newest: What its source was found to mean.
    """
    chosen = parse_rules(rules, "the pipeline's gate file") if rules else None
    run = Run.create(run_uri, config)
    run.leave_newest(newest)
    Judging(chosen, datetime.date.today()).leave(run)
    return run
