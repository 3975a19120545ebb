"""An audit from its configuration to its verdict: begun or resumed, by all steps or by one."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from scotoma import storage
from scotoma.audit import read_audit
from scotoma.commands.asking import Answer
from scotoma.config import Config, load_config
from scotoma.config.gate import load_rules
from scotoma.errors import UNLOGGED, ConfigError, DataError, MissingExtra, NotLogged
from scotoma.extras import home_of
from scotoma.printable import printable
from scotoma.processes.child import run_steps_in_child
from scotoma.run import Run, checksums, read_json
from scotoma.run.judging import Judging
from scotoma.run.lock import locked
from scotoma.run.mirror import Mirror
from scotoma.steps.inputs import resolved, with_variants
from scotoma.steps.runner import fault_logged, refuse_too_early
from scotoma.steps.table import named
from scotoma.storage.files import remove_partial

AGAIN = ": measured again, with the models that are there"
NOTHING_NEW = "note    nothing new: the audit of these inputs was finished before"
UNTRACKED = "tracking is off; name a server in MLFLOW_TRACKING_URI or in tracking.uri"


def default_place(config: Config) -> str:
    """The folder of a run that no --out names: one for the same models, whoever is compared."""
    digest = with_variants(config).models_digest()[:8]
    return str(Path("runs", f"{config.project.replace(' ', '-')}-{digest}"))


def resumed(place: str | None) -> Path | None:
    """The configuration of a run that is to go on.

    Raises:
        ConfigError: No audit has begun there.
    """
    if place is None:
        return None
    if not storage.exists(storage.join(place, "config.yaml")):
        raise ConfigError(
            f"--resume needs an interrupted run, and there is none at {place}; leave out "
            "--resume, or correct --out"
        )
    return Run.open(place).path("config.yaml")


def run_audit(
    config: Config, place: str | None, judging: Judging | None = None, *,
    previous: str | None = None, step: str | None = None, quiet: bool = False,
    resume: bool = False,
) -> Answer:  # fmt: skip
    """Begin or resume an audit, by all steps or by one of them, and judge what they found.

    Args:
        config: The configuration.
        place: Folder of the run, or `s3://BUCKET/PREFIX`; a run that is there goes on. None for
            the folder that is named after the project and the configuration.
        judging: The rules, and the day that they are judged on; None for the default rules, today.
            A run that is resumed, or goes on by one step, keeps its rules where none are asked for.
        previous: Place of the previous audit; None for the newest in MLflow, where the
            configuration asks for a comparison.
        step: The one step to run, from what those before it left; nothing is judged or summed up.
        quiet: Show no progress.
        resume: Refuse to begin a run.

    Returns:
        The summary, audit.json, and the exit code of the verdict; or the files that a step left.

    Raises:
        ScotomaError: The configuration or the data cannot be audited, nothing is left behind; or
            something went wrong inside, whose traceback is in the logs of the run.
    """
    if step is not None:
        named(step)
    place, judging = place or default_place(config), judging or Judging(None, datetime.date.today())
    if resume:
        resumed(place)
    _require_extras(config, place)
    with Mirror.of(place).listed():
        take_back = _taking_back(place)
        config, newest = resolved(config, place)
        run = Run.create(place, config)
    console = Console(stderr=True, quiet=quiet)
    with locked(run.root) as lock:
        try:
            with fault_logged("the audit", run.path("logs", "audit.log")):
                began = time.perf_counter()
                remove_partial(run.root)
                with run.mirror.listed():
                    checksums.unseal(run.mirror)
                    if changes := run.adopt_config():
                        _print(console, f"note    {changes}{AGAIN}")
                    if resume or step is not None:
                        judging = judging.kept(run)
                    if step in (None, "verdict"):
                        judging.leave(run)
                    run.leave_newest(newest)
                    if previous is not None:
                        from scotoma.steps.judging.previous import leave_previous, margin_of

                        leave_previous(run.mirror, previous, margin_of(run.config))
                if step is not None:
                    refuse_too_early(run, step)
                    run_steps_in_child(run, console, lock, only=step)
                    checksums.seal(run.mirror)
                    return _left(run, step, _of_tracking(run) if step == "log" else ())
                before = _records(run)
                judging_needs = ("scotoma.steps.verdict", "scotoma.report.summary", "scipy.special")
                run_steps_in_child(run, console, lock, meanwhile=judging_needs)
                from scotoma.steps.verdict import give_verdict

                with run.mirror.listed():
                    judged = give_verdict(run.mirror, judging.rules, judging.as_of)
                    page = run.path("report.html")
                    run.fetch(run.path("audit.json"), page)
                    new = not before or before != _records(run)
                    notes = [] if new else [NOTHING_NEW]
                    read = read_audit(run.path("audit.json")).examples.notes
                    notes += [f"note    {printable(note)}" for note in read]
                    notes += judged.notes
                    notes += [f"newest  {printable(run.newest)}"] if run.newest else []
                    notes += [f"took    {time.perf_counter() - began:.0f} s", *_of_tracking(run)]
                    notes.append(
                        f"report  {run.mirror.place(page) if run.uri else Path(place, page.name)}"
                    )
                    notes += [f"copy    {page}"] if run.uri else []
        except (ConfigError, DataError):
            if not run.path("populations").exists():  # what was trained is never taken back
                take_back()
            raise
    return Answer(judged.summary, run.path("audit.json"), notes, judged.exit_code)


def audit_beside(run: Run, config: Path, rules: Path | None, place: Path, *, quiet: bool) -> None:
    """Audit tables that were made from a run, on the terms of that run.

    Args:
        run: The audit that they were made from.
        config: The configuration of the new one.
        rules: Its gate file; None for the default rules.
        place: Its folder.
        quiet: Write nothing to stderr.
    """
    made = load_config(config).model_copy(update={"deterministic": run.config.deterministic})
    judging = Judging(load_rules(rules) if rules else None, Judging.of(run).as_of)
    run_audit(made, str(place), judging, quiet=quiet)


def _records(run: Run) -> dict[str, bytes]:
    """What each finished step has written down."""
    return {path.name: path.read_bytes() for path in run.path("steps").glob("*.json")}


def _left(run: Run, step: str, notes: Sequence[str]) -> Answer:
    """The files that a step has left."""
    files = sorted(
        name
        for record in run.path("steps").glob("*.json")
        if re.fullmatch(rf"{step}(-\d+)?", record.stem)
        for name in read_json(record)["outputs"]
    )
    return Answer("\n".join(files), {"step": step, "files": files}, notes)


def log_again(place: str, *, quiet: bool = False) -> Answer:
    """Log a finished audit to MLflow, whatever has become of its data, and do nothing else.

    Args:
        place: Folder of the run, or `s3://BUCKET/PREFIX`.
        quiet: Show no progress.

    Raises:
        ConfigError: It is no finished audit, or tracking is off.
        NotLogged: MLflow does not hold it.
    """
    from scotoma.tracking.store import tracking_uri

    resumed(place)
    run = Run.open(place)
    run.mirror.fetch_folder("steps")
    refuse_too_early(run, "log")
    if tracking_uri(run, dict(os.environ)) is None:
        raise ConfigError(UNTRACKED)
    console = Console(stderr=True, quiet=quiet)
    with locked(run.root) as lock:
        run.forget("log")
        run_steps_in_child(run, console, lock, only="log")
        checksums.seal(run.mirror)
    if reason := read_json(run.path("tracking.json"))["reason"]:
        raise NotLogged(f"{UNLOGGED}: {reason}")
    return _left(run, "log", _of_tracking(run))


def _of_tracking(run: Run) -> list[str]:
    """Where the audit is in MLflow, or why it is not."""
    tracking = run.path("tracking.json")
    run.fetch(tracking)
    tracked = read_json(tracking)
    lines = [f"mlflow  {printable(mended)}"] if (mended := tracked.get("mended")) else []
    if repeats := tracked.get("repeats"):
        lines.append(f"note    {printable(repeats)}")
    if tracked["reason"]:
        lines.append(f"mlflow  not logged: {printable(tracked['reason'])}")
    elif tracked["link"]:
        lines.append(f"mlflow  {tracked['link']}")
    registered = tracked.get("registered", {})
    model = f"model   {registered.get('model')}"
    if version := registered.get("version"):
        alias = registered["alias"]
        lines.append(printable(f"{model} version {version}" + f" is now {alias}" * bool(alias)))
    elif note := registered.get("note"):
        lines.append(printable(f"{model}: {note}"))
    return lines


def _print(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def _require_extras(config: Config, place: str) -> None:
    """Refuse what this installation cannot run, before anything is written."""
    if storage.is_remote(place):
        home_of("boto3", "s3", "an s3:// address")
    try:
        if config.source.trains:
            home_of("torch", "train", "training")
    except MissingExtra:
        if not storage.exists(storage.join(place, "audit.json")):
            raise  # a finished one needs no training


def _taking_back(place: str) -> Callable[[], None]:
    """Look at a place before anything is made there, and give what takes back all that was."""
    mirror = Mirror.of(place)
    root, is_new = mirror.root, bool(mirror.uri) and not mirror.names()
    folders = (root, *root.parents)
    there = {path for path in folders if path.exists()}
    held = root.is_dir() and any(root.iterdir())

    def take_back() -> None:
        for path in () if held else root.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for path in folders:
            if path in there or any(path.iterdir()):
                break
            path.rmdir()
        if is_new:
            with contextlib.suppress(DataError):  # what was refused first is what to say
                names = storage.list_files(place)
                if not any(name.startswith("populations/") for name in names):
                    for name in names:
                        storage.remove(storage.join(place, name))

    return take_back
