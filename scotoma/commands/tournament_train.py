"""How does a tournament train its techniques? With an audit for each, which a rerun resumes."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

from scotoma.commands.audit_run import run_configured
from scotoma.commands.gate import chosen_rules, day
from scotoma.config import Config, load_config
from scotoma.errors import ConfigError
from scotoma.stages.judging.terms import Judging
from scotoma.tournament import FEWEST_RUNS

__all__ = ["shared_trainings", "train_techniques"]


def train_techniques(path: Path, folder: Path | None, *, quiet: bool) -> tuple[Config, list[str]]:
    """Audit the baseline and every technique of a configuration.

    Args:
        path: Configuration with a section `tournament`.
        folder: Where the audits go, each in a folder of its technique's name; None for
            `runs/PROJECT`.
        quiet: Write nothing to stderr.

    Returns:
        The configuration, and each audit as `TECHNIQUE=FOLDER`, the baseline first.

    Raises:
        ConfigError: No section `tournament`, or too few members.
        ScotomaError: An audit cannot be made.
    """
    config = load_config(path)
    contestants = config.contestants()
    if not contestants:
        raise ConfigError(
            f"configuration {path} has no section tournament; add tournament.techniques"
        )
    if config.population.models < FEWEST_RUNS:
        raise ConfigError(
            f"a tournament needs {FEWEST_RUNS} runs of each technique, got population.models "
            f"{config.population.models}: raise it"
        )
    home = folder or Path("runs", config.project.replace(" ", "-"))
    places = []
    for number, (name, own) in enumerate(contestants.items(), 1):
        if not quiet:
            sys.stderr.write(f"note    {name}, {number} of {len(contestants)}\n")
        place = str(home / name)
        with contextlib.redirect_stdout(io.StringIO()):  # the summary of one audit among many
            run_configured(
                own, place, Judging(chosen_rules(None), day(None)), None,
                as_json=False, quiet=True, step=None,
            )  # fmt: skip
        places.append(f"{name}={place}")
    return config, places


def shared_trainings(config: Config) -> list[list[str]]:
    """Name the techniques that share one training and decide differently.

    >>> from scotoma.config import parse_config
    >>> shared_trainings(parse_config(
    ...     "tournament: {techniques: [DI1, RS, DI2], attribute: style}", "a.yaml"))
    [['DI1', 'DI2']]
    """
    families: dict[str, list[str]] = {}
    for name, own in config.contestants().items():
        if own.mitigation is not None:
            families.setdefault(own.mitigation.family, []).append(name)
    return [names for names in families.values() if len(names) > 1]
