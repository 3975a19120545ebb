"""The audit command: all steps, or one of them, and a summary of the numbers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from scotoma import storage
from scotoma.audit import read_audit
from scotoma.commands.asking import print_out
from scotoma.commands.gate import chosen_rules, day
from scotoma.commands.shared.configuration import configuration, own_code
from scotoma.commands.shared.installed import require_extras
from scotoma.config import Config
from scotoma.errors import UNLOGGED, ConfigError, DataError, NotLogged, ScotomaError
from scotoma.printable import printable
from scotoma.processes.child import run_steps_in_child
from scotoma.processes.exhausted import exhausted
from scotoma.run import Run, checksums, read_json
from scotoma.run.lock import locked
from scotoma.run.mirror import Mirror
from scotoma.steps.inputs.newest import resolved, with_variants
from scotoma.steps.judging.terms import Judging
from scotoma.steps.run_steps import refuse_too_early
from scotoma.steps.table import named
from scotoma.storage.credentials import masked
from scotoma.storage.files import new_file, remove_partial

if TYPE_CHECKING:
    from scotoma.steps.verdict import Judged

__all__ = ["default_place", "log_again", "run_audit", "run_configured"]

UNTRACKED = "tracking is off; name a server in MLFLOW_TRACKING_URI or in tracking.uri"


def run_audit(
    path: Path | None,
    out: str | None,
    *,
    deterministic: bool,
    seed: int | None,
    data: str | None,
    as_json: bool,
    quiet: bool,
    models: int | None = None,
    rules: Path | None = None,
    as_of: str | None = None,
    allow_code: bool = False,
    resume: bool = False,
    step: str | None = None,
    previous: str | None = None,
) -> int:
    """Run the whole pipeline, judge what it found and print its summary.

    Args:
        path: Configuration; None for the embedded default.
        out: Folder of the run, or `s3://BUCKET/PREFIX`; None for a folder named after the project
            and the configuration.
        deterministic: Overrides `deterministic` with True.
        seed: Overrides `population.seed`.
        data: Overrides `source.data`.
        as_json: Print audit.json instead of the summary.
        quiet: Write nothing to stderr.
        models: Overrides `population.models`.
        rules: Gate file; None for the default rules.
        as_of: Day that decides which waivers have expired, YYYY-MM-DD; None for today.
        allow_code: Whether code that the configuration names may run.
        resume: Refuse to begin a run; one that is there goes on, by its own configuration where
            `path` is None and `out` says where it is.
        step: The one step to run, from what those before it left; nothing is judged or summed up.
        previous: Place of the previous audit; None for the newest in MLflow, where the
            configuration asks for a comparison.

    Returns:
        What `scotoma gate` would end with: 0 pass, 1 failed, 3 unsure where that fails.

    Raises:
        ScotomaError: The configuration or the data cannot be audited, nothing is left behind; or
            something went wrong inside, whose traceback is in the logs of the run.
    """
    if step is not None:
        named(step)
    config_path = path
    if resume and path is None and out is not None:
        _refuse_nothing(out)
        config_path = Run.open(out).path("config.yaml")
    config = configuration(
        config_path, deterministic=deterministic, seed=seed, data=data, models=models
    )
    place = out or default_place(config)
    if resume:
        _refuse_nothing(place)
    with own_code(config, path, allowed=allow_code):
        return run_configured(
            config,
            place,
            Judging(chosen_rules(rules), day(as_of)),
            previous,
            as_json=as_json,
            quiet=quiet,
            step=step,
        )


def default_place(config: Config) -> str:
    """The folder of a run that no --out names: one for the same models, whoever is compared."""
    digest = with_variants(config).models_digest()[:8]
    return str(Path("runs", f"{config.project.replace(' ', '-')}-{digest}"))


def _refuse_nothing(place: str) -> None:
    if not storage.exists(storage.join(place, "config.yaml")):
        raise ConfigError(
            f"--resume needs an interrupted run, and there is none at {place}; leave out "
            "--resume, or correct --out"
        )


def run_configured(
    config: Config,
    place: str,
    judging: Judging,
    previous: str | None,
    *,
    as_json: bool,
    quiet: bool,
    step: str | None,
    silent: bool = False,
) -> int:
    """Run the audit of a configuration that is read already; arguments as for `run_audit`.

    Args:
        config: The configuration.
        place: Folder of the run, or `s3://BUCKET/PREFIX`.
        judging: The rules, and the day that they are judged on.
        previous: As for `run_audit`.
        as_json: As for `run_audit`.
        quiet: As for `run_audit`.
        step: As for `run_audit`.
        silent: Print no summary: the caller says what was found.
    """
    require_extras(config, place)
    with Mirror.of(place).listed():
        traces = Traces.before(place)
        config, newest = resolved(config, place)
        run = Run.create(place, config)
    console = Console(stderr=True, quiet=quiet)
    with locked(run.root) as lock:
        try:
            began = time.perf_counter()
            remove_partial(run.root)
            with run.mirror.listed():
                checksums.unseal(run.mirror)
                if changes := run.adopt_config():
                    note = f"note    {changes}: measured again, with the models that are there"
                    _print_lines(console, [note])
                judging.leave(run)
                run.leave_newest(newest)
                if previous is not None:
                    from scotoma.steps.judging.previous import leave_previous, margin_of

                    leave_previous(run.mirror, previous, margin_of(run.config))
            if step is not None:
                refuse_too_early(run, step)
                run_steps_in_child(run, console, lock, only=step)
                checksums.seal(run.mirror)
                _say_step(run, step, console, as_json=as_json)
                return 0
            before = _records(run)
            judging_needs = ("scotoma.steps.verdict", "scotoma.report.summary", "scipy.special")
            run_steps_in_child(run, console, lock, meanwhile=judging_needs)
            from scotoma.steps.verdict import give_verdict

            with run.mirror.listed():
                judged = give_verdict(run.mirror, judging.rules, judging.as_of)
                if not silent:
                    if before == _records(run) and before:
                        note = "note    nothing new: the audit of these inputs was finished before"
                        _print_lines(console, [note])
                    _say(run, place, console, time.perf_counter() - began, judged, as_json=as_json)
        except (ConfigError, DataError):
            if not run.path("populations").exists():  # what was trained is never taken back
                traces.remove()
            raise
        except ScotomaError:
            raise
        except OSError as error:  # a broken pipe too: left alone it would end the command with 1
            why = exhausted(error) or f"{error}; free the path"
            raise ScotomaError(f"{why}, and repeat the command to resume") from error
        except Exception as error:
            log = run.path("logs", "audit.log")
            log.parent.mkdir(exist_ok=True)
            with new_file(log) as file:
                text = masked("".join(traceback.format_exception(error)))
                file.write(text.encode("utf-8", "replace"))
            raise ScotomaError(
                f"the audit ended with an internal error ({type(error).__name__}); its traceback "
                f"is in {log}"
            ) from error
    return judged.exit_code


def _records(run: Run) -> dict[str, bytes]:
    """What each finished step has written down."""
    return {path.name: path.read_bytes() for path in run.path("steps").glob("*.json")}


def log_again(place: str, *, quiet: bool) -> None:
    """Log a finished audit to MLflow, and do nothing else.

    Args:
        place: Folder of the run, or `s3://BUCKET/PREFIX`.
        quiet: Write nothing to stderr.

    Raises:
        ConfigError: It is no finished audit, or tracking is off.
        NotLogged: MLflow does not hold it.
    """
    from scotoma.tracking import tracking_uri

    _refuse_nothing(place)
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
    _print_lines(console, _mlflow_lines(run))


def _say_step(run: Run, step: str, console: Console, *, as_json: bool) -> None:
    """The files that a step has left, on stdout; on stderr what became of MLflow."""
    files = sorted(
        name
        for record in run.path("steps").glob("*.json")
        if re.fullmatch(rf"{step}(-\d+)?", record.stem)
        for name in read_json(record)["outputs"]
    )
    content = json.dumps({"step": step, "files": files}, indent=1) if as_json else "\n".join(files)
    print_out(content + "\n", sys.stdout)
    if step == "log":
        _print_lines(console, _mlflow_lines(run))


def _mlflow_lines(run: Run) -> list[str]:
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


def _print_lines(console: Console, lines: list[str]) -> None:
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _say(
    run: Run, place: str, console: Console, seconds: float, judged: Judged, *, as_json: bool
) -> None:
    """The numbers on stdout; on stderr how long it took, and where everything is."""
    audit, page = map(run.path, ("audit.json", "report.html"))
    run.fetch(audit, page)
    print_out(audit.read_text(encoding="utf-8") if as_json else judged.summary, sys.stdout)
    lines = [f"note    {printable(note)}" for note in read_audit(audit).examples.notes]
    lines += judged.notes
    if run.newest:
        lines.append(f"newest  {printable(run.newest)}")
    lines.append(f"took    {seconds:.0f} s")
    lines += _mlflow_lines(run)
    if run.uri:
        lines += [f"report  {run.mirror.place(page)}", f"copy    {page}"]
    else:
        lines.append(f"report  {Path(place) / page.name}")
    _print_lines(console, lines)


@dataclass(frozen=True)
class Traces:
    """What a command that is refused has to take back.

    Attributes:
        root: Folder of the run.
        standing: The nearest folder that was there before; None where the run itself was.
        uri: Of a run in object storage of which nothing was there before; else empty.
    """

    root: Path
    standing: Path | None
    uri: str = ""

    @classmethod
    def before(cls, place: str) -> Traces:
        """What is at a place before the command makes anything there.

        Raises:
            ScotomaError: The object storage cannot be asked.
        """
        if not storage.is_remote(place):
            return cls(Path(place), _standing(Path(place)))
        mirror = Mirror.of(place)
        return cls(mirror.root, _standing(mirror.root), "" if mirror.names() else place)

    def remove(self) -> None:
        """Take back all that the command made."""
        _remove_what_is_new(self.root, self.standing)
        if self.uri:
            with contextlib.suppress(DataError):  # what was refused first is what to say
                names = storage.list_files(self.uri)
                if not any(name.startswith("populations/") for name in names):
                    for name in names:
                        storage.remove(storage.join(self.uri, name))


def _standing(root: Path) -> Path | None:
    """The nearest folder that is there already; None where `root` itself holds a run."""
    if root.is_dir() and any(root.iterdir()):
        return None
    return next((path for path in (root, *root.parents) if path.exists()), None)


def _remove_what_is_new(root: Path, standing: Path | None) -> None:
    """Take back all that the command made below the folder that was there before."""
    if standing is None:
        return
    for path in (root, *root.parents):
        if path == standing:
            break
        if path == root or not any(path.iterdir()):
            shutil.rmtree(path)
    if root == standing:
        for path in root.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
