"""The begin of a run on Kubeflow: its configuration, its gate file and its newest input."""

from __future__ import annotations

import datetime

from scotoma.config import Config, parse_config
from scotoma.config.gate import GateRules, parse_rules
from scotoma.config.newest import Newest
from scotoma.run import Run
from scotoma.run.judging import Judging


def read_configuration(text: str) -> Config:
    """Read the configuration that a pipeline holds; it may still ask for the newest input."""
    return parse_config(text, "the pipeline's configuration")


def read_rules(text: str) -> GateRules | None:
    """Read the gate file that a pipeline holds; None, for the default rules, if it is empty."""
    return parse_rules(text, "the pipeline's gate file") if text else None


def begin_run(run_uri: str, config: Config, rules: GateRules | None, newest: Newest | None) -> Run:
    """Make the run's folder, with all that decides its result.

    Args:
        run_uri: The folder, or its `s3://BUCKET/PREFIX`.
        config: What is audited, without placeholders.
        rules: The gate; None for the default rules.
        newest: The input that stands for the placeholders; None where there are none.
    """
    run = Run.create(run_uri, config)
    run.adopt_config()
    run.leave_newest(newest)
    Judging(rules, datetime.date.today()).leave(run)
    return run
