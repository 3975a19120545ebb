"""An audit from its configuration to its verdict: begun or resumed, by all steps or by one."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from scotoma import storage
from scotoma.audit import read_audit
from scotoma.commands.asking import Answer
from scotoma.config import Config
from scotoma.errors import UNLOGGED, ConfigError, DataError, MissingExtra, NotLogged, ScotomaError
from scotoma.extras import home_of
from scotoma.printable import printable
from scotoma.processes.child import run_steps_in_child
from scotoma.processes.exhausted import exhausted
from scotoma.run import Run, checksums, read_json
from scotoma.run.judging import Judging
from scotoma.run.lock import locked
from scotoma.run.mirror import Mirror
from scotoma.steps.inputs import resolved, with_variants
from scotoma.steps.runner import refuse_too_early
from scotoma.steps.table import named
from scotoma.storage.credentials import masked
from scotoma.storage.files import new_file, remove_partial

if TYPE_CHECKING:
    from scotoma.steps.verdict import Judged


AGAIN = ": measured again, with the models that are there"
NOTHING_NEW = "note    nothing new: the audit of these inputs was finished before"
UNTRACKED = "tracking is off; name a server in MLFLOW_TRACKING_URI or in tracking.uri"


@dataclass(frozen=True)
class AuditDone:
    """What an audit, or one step of it, has left.

    Attributes:
        run: The run.
        notes: What to say beside it, lines for stderr.
        judged: The verdict; None where one step ran.
        files: What that step has left.
    """

    run: Run
    notes: Sequence[str]
    judged: Judged | None = None
    files: Sequence[str] = ()

    def answer(self, step: str | None, exit_code: int = 0) -> Answer:
        """What the command answers: the summary and the audit's file, or the files of a step."""
        if self.judged is None:
            content = {"step": step, "files": self.files}
            return Answer("\n".join(self.files), content, self.notes, exit_code)
        return Answer(self.judged.summary, self.run.path("audit.json"), self.notes, exit_code)


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
    config: Config, place: str | None, judging: Judging, *,
    previous: str | None = None, step: str | None = None, quiet: bool = False,
    resume: bool = False,
) -> AuditDone:  # fmt: skip
    """Begin or resume an audit, by all steps or by one of them, and judge what they found.

    Args:
        config: The configuration.
        place: Folder of the run, or `s3://BUCKET/PREFIX`; a run that is there goes on. None for
            the folder that is named after the project and the configuration.
        judging: The rules, and the day that they are judged on.
        previous: Place of the previous audit; None for the newest in MLflow, where the
            configuration asks for a comparison.
        step: The one step to run, from what those before it left; nothing is judged or summed up.
        quiet: Show no progress.
        resume: Refuse to begin a run.

    Raises:
        ScotomaError: The configuration or the data cannot be audited, nothing is left behind; or
            something went wrong inside, whose traceback is in the logs of the run.
    """
    if step is not None:
        named(step)
    place = place or default_place(config)
    if resume:
        resumed(place)
    _require_extras(config, place)
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
                    _print(console, f"note    {changes}{AGAIN}")
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
                return AuditDone(
                    run, _of_tracking(run) if step == "log" else (), files=_left(run, step)
                )
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
                traces.remove()
            raise
        except ScotomaError:
            raise
        except OSError as error:
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
    return AuditDone(run, notes, judged)


def _records(run: Run) -> dict[str, bytes]:
    """What each finished step has written down."""
    return {path.name: path.read_bytes() for path in run.path("steps").glob("*.json")}


def _left(run: Run, step: str) -> list[str]:
    """The files that a step has left."""
    return sorted(
        name
        for record in run.path("steps").glob("*.json")
        if re.fullmatch(rf"{step}(-\d+)?", record.stem)
        for name in read_json(record)["outputs"]
    )


def log_again(place: str, *, quiet: bool = False) -> AuditDone:
    """Log a finished audit to MLflow, whatever has become of its data, and do nothing else.

    Args:
        place: Folder of the run, or `s3://BUCKET/PREFIX`.
        quiet: Show no progress.

    Raises:
        ConfigError: It is no finished audit, or tracking is off.
        NotLogged: MLflow does not hold it.
    """
    from scotoma.tracking import tracking_uri

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
    return AuditDone(run, _of_tracking(run), files=_left(run, "log"))


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
