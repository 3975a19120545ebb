"""Runs of techniques: read from files or finished audits, or trained, with an audit for each."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path

from scotoma.answers.values import tidy
from scotoma.commands.asking import Answer
from scotoma.commands.compare import CompareOptions
from scotoma.config import Config, load_config
from scotoma.config.mitigation import Contestant
from scotoma.config.techniques import BASE
from scotoma.errors import ConfigError, ScotomaError
from scotoma.fix.refit import refit_last_layers
from scotoma.printable import listed, printable
from scotoma.processes.exhausted import exhausted
from scotoma.run import Run
from scotoma.run.mirror import place_here
from scotoma.runs.finished import read_finished
from scotoma.runs.spreads import compare_spreads
from scotoma.runs.table import bias_and_accuracy, read_runs
from scotoma.runs.techniques import FEWEST_RUNS
from scotoma.runs.tournament import TournamentSettings, judge_techniques, tournament_answer
from scotoma.steps.audit import audit_beside, run_audit
from scotoma.storage.files import written

ONE_SEED = "one-seed"  # folder of the members that all have one seed


def compare_table_of_runs(options: CompareOptions) -> Answer:
    """Say how far identical runs lie apart, and which techniques differ beyond that."""
    places, base = [place_here(path) for path in options.paths], _only(options.base, "--base")
    document, content = compare_spreads(
        read_runs(places), base and tidy(base), title=_title(places), protocol=options.protocol,
        level=options.level,
    )  # fmt: skip
    notes = [] if base else ["no --base: spreads are shown, nothing is compared"]
    return Answer(document, content, notes)


def compare_raw_runs(options: CompareOptions) -> Answer:
    """Judge techniques by values of bias and accuracy that files hold."""
    places = [place_here(path) for path in options.paths]
    sets = bias_and_accuracy(read_runs(places))
    result = judge_techniques(sets, _settings(options), title=_title(places))
    return Answer(*tournament_answer(result))


def compare_trained(options: CompareOptions) -> Answer:
    """Audit the techniques of a configuration, and judge them."""
    done = train_techniques(Path(options.paths[0]), options.out, quiet=options.quiet)
    return compare_audits_of_techniques(options, done)


def compare_audits_of_techniques(
    options: CompareOptions, trained: TrainedTournament | None = None
) -> Answer:
    """Judge techniques by finished audits, one a technique: those named, or those just trained."""
    attribute, variant = _only(options.group, "--group"), _only(options.predicted, "--predicted")
    settings, families, again = _settings(options), [], None
    failed: Mapping[str, str] = {} if trained is None else trained.failed
    if trained is not None:
        contest = trained.config.tournament
        attribute = attribute or (None if contest is None else contest.attribute)
        settings = settings.model_copy(update={"bases": (BASE,)})
        families = shared_trainings(trained.config, failed)
    finished = read_finished(options.paths if trained is None else trained.places, attribute)
    if trained is not None and trained.one_seed:
        again = read_finished(trained.one_seed, finished.attribute).runs(variant)
    result = judge_techniques(
        finished.runs(variant), settings, title=f"{len(finished.audits)} audits",
        finished=finished, families=families, one_seed=again, failed=failed,
    )  # fmt: skip
    return Answer(*tournament_answer(result))


def _settings(options: CompareOptions) -> TournamentSettings:
    return TournamentSettings(
        bases=tuple(map(tidy, options.base)), paired=options.paired, protocol=options.protocol,
        level=options.level,
    )  # fmt: skip


def _only(values: Sequence[str], option: str) -> str | None:
    """The one value of an option; None where it is left out."""
    if len(values) > 1:
        raise ConfigError(f"{option} names one here, got {listed(values)}: leave out the others")
    return values[0] if values else None


def _title(places: list[Path]) -> str:
    return ", ".join(place.name for place in places) or "tournament"


@dataclass(frozen=True)
class TrainedTournament:
    """The audits of a configuration's tournament.

    Attributes:
        config: The configuration.
        places: Each audit as `TECHNIQUE=FOLDER`, the baseline first.
        one_seed: The same with one seed for all members; empty where none were asked for.
        failed: Technique to why there is no audit of it.
    """

    config: Config
    places: tuple[str, ...]
    one_seed: tuple[str, ...]
    failed: Mapping[str, str]


def train_techniques(path: Path, folder: Path | None, *, quiet: bool) -> TrainedTournament:
    """Audit the baseline and every technique of a configuration.

    Args:
        path: Configuration with a section `tournament`.
        folder: Where the audits go, each in a folder of its technique's name; None for
            `runs/PROJECT`.
        quiet: Write nothing to stderr.

    Returns:
        Where the audits are.

    Raises:
        ConfigError: No section `tournament`, or too few members.
        ScotomaError: The baseline, or no technique, can be audited.
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
    contest = config.tournament
    assert contest is not None
    rounds, refits, numbers = [(home, contestants)], contest.refits(), count(1)
    if contest.identical:
        rounds.append((home / ONE_SEED, {n: _with_one_seed(c) for n, c in contestants.items()}))

    def say(text: str) -> None:
        if not quiet:
            sys.stderr.write(f"note    {text}\n")

    total = len(rounds) * (len(contestants) + len(refits))
    done: list[dict[str, str]] = []
    failed: dict[str, str] = {}
    for place, configs in rounds:
        places = {}
        for name, number in zip((*configs, *refits), numbers, strict=False):
            if name in failed:
                continue
            say(f"{name}, {number} of {total}")
            try:
                if name in configs:
                    places[name] = _audit(configs, name, place)
                else:
                    places[name] = _refit(place / BASE, name, refits[name], place / name)
            except Exception as error:  # one that fails stops no other
                if name == BASE or exhausted(error):
                    raise
                failed[name] = why = _said(error)
                say(f"{name} failed: {why}")
        done.append(places)
    if set(failed) >= {*contestants, *refits} - {BASE}:
        name, why = next(iter(failed.items()))
        raise ScotomaError(f"every technique failed, {name} first: {why}")
    kept = [tuple(place for name, place in one.items() if name not in failed) for one in done]
    return TrainedTournament(config, kept[0], kept[1] if len(kept) > 1 else (), failed)


def _said(error: Exception) -> str:
    """The first line of what an error says."""
    line = printable(str(error).strip().partition("\n")[0])
    return line if isinstance(error, ScotomaError) else f"{type(error).__name__}: {line}"


def _with_one_seed(config: Config) -> Config:
    """The same audit, of members that all have the first one's seed."""
    population = config.population.model_copy(update={"identical": True})
    return config.model_copy(update={"population": population})


def _audit(configs: dict[str, Config], name: str, home: Path) -> str:
    """Train and audit one technique, from the members of another where they share a training."""
    _borrow_members(configs, name, home)
    run_audit(configs[name], str(home / name), quiet=True)
    return f"{name}={home / name}"


def _borrow_members(configs: dict[str, Config], name: str, home: Path) -> None:
    """Link the members of an earlier technique that only decides differently.

    What a member was made from is checked when the audit finds it, as after an interruption.
    """
    own = configs[name]
    training = own.mitigation and own.mitigation.deciding_training()
    earlier = takewhile(lambda other: other != name, configs)
    lender = next((other for other in earlier if (asked := configs[other].mitigation)
                   and asked.deciding_training() == training), None)  # fmt: skip
    if lender is None or (home / name / "populations").exists():
        return
    source = Run.open(home / lender)
    run = Run.create(home / name, own)
    for variant in own.resolved_variants:
        if variant.kind not in ("dense", "prune"):
            continue
        folder = source.member(variant.name, 0).parent
        for file in folder.iterdir():
            _link(file, run.path(*folder.relative_to(source.root).parts, file.name))


def _link(file: Path, target: Path) -> None:
    """Give a file a second name, or copy it where the file system has none."""
    with written(target) as temporary:
        try:
            os.link(file, temporary)
        except OSError:
            shutil.copyfile(file, temporary)


def _refit(base: Path, name: str, contestant: Contestant, folder: Path) -> str:
    """Audit the baseline's members with last layers of their own."""
    run = Run.open(base)
    config, rules = refit_last_layers(
        run, str(contestant.attribute), folder, kept=contestant.facts.slot == "dense last layer"
    )
    place = folder / "audit"
    audit_beside(run, config, rules, place, quiet=True)
    return f"{name}={place}"


def shared_trainings(config: Config, without: Collection[str] = ()) -> list[list[str]]:
    """Name the techniques that share one training and decide differently, some left out.

    >>> from scotoma.config import default_config
    >>> from scotoma.config.mitigation import Contest
    >>> contest = Contest(techniques=["DI1", "RS", "DI2"], attribute="style")
    >>> shared_trainings(default_config().model_copy(update={"tournament": contest}))
    [['DI1', 'DI2']]
    """
    families: dict[str, list[str]] = {}
    for name, own in config.contestants().items():
        if own.mitigation is not None and name not in without:
            families.setdefault(own.mitigation.family, []).append(name)
    return [names for names in families.values() if len(names) > 1]
