"""Where a run lives: its folder, what is finished in it, and how files get there whole."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import yaml

from scotoma import config as settings  # each name is built when it is asked for
from scotoma import storage
from scotoma.config.newest import Newest
from scotoma.errors import ConfigError, DataError
from scotoma.printable import printable
from scotoma.run.lock import LOCK
from scotoma.run.mirror import Mirror
from scotoma.run.step_logs import FOLDER as LOGS
from scotoma.storage.credentials import masked
from scotoma.storage.files import (
    SPECIAL,
    code_digest,
    file_digest,
    read_json,
    read_record,
    write_json,
    written,
)

if TYPE_CHECKING:
    from scotoma.config import Config


NAMED = 3  # keys; of the others there is a number
LONGEST = 60  # characters of a value


def differing(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """The keys on which two configurations differ, as a clause; empty where they do not.

    Args:
        there: What decides the results of a run.
        here: The same of a command.

    >>> from scotoma.config import default_config
    >>> config = default_config()
    >>> fewer = config.population.model_copy(update={"models": 3})
    >>> other = config.model_copy(update={"population": fewer})
    >>> differing(config.deciding(), other.deciding())
    'population.models is 10 there and 3 here'
    """
    before, after = dict(_leaves(there)), dict(_leaves(here))
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    clauses = [
        f"{key} is {_shown(before, key)} there and {_shown(after, key)} here" for key in keys
    ]
    more = [f"and {len(keys) - NAMED} more"] if len(keys) > NAMED else []
    return ", ".join(clauses[:NAMED] + more)


def _leaves(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values; a list is one value."""
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from _leaves(below, f"{at}.{key}" if at else str(key))
    else:
        yield at, value


def _shown(leaves: dict[str, Any], key: str) -> str:
    if leaves.get(key) is None:
        return "absent"
    text = printable(json.dumps(leaves[key], ensure_ascii=False))
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


WRITABLE = "set SCOTOMA_CACHE to a writable folder"


def refuse_links(root: Path) -> None:
    """Refuse a run that would be read or written elsewhere than in its folder.

    Args:
        root: The folder of the run, which may itself be a link.

    Raises:
        ConfigError: A link, FIFO, socket or device lies in it, at any depth.
    """
    waiting = [root]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:  # absent or not readable: said by what needs it
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            elif not entry.is_file(follow_symlinks=False):
                mode = entry.stat(follow_symlinks=False).st_mode
                kind = "a link" if stat.S_ISLNK(mode) else SPECIAL.get(stat.S_IFMT(mode), "no file")
                shown = printable(os.path.relpath(entry.path, root))
                raise ConfigError(
                    f"run {printable(str(root))} must hold files and folders only, and {shown!r} "
                    f"is {kind}; remove it"
                )


def shareable(config: Config) -> str:
    """A configuration as YAML, with every default filled in and no credentials."""
    values = config.model_dump(mode="json", exclude_none=True)
    if config.label.column is None:
        values["label"]["column"] = None  # a key that is never left out
    if config.tracking.uri:
        values["tracking"]["uri"] = masked(config.tracking.uri)
    return yaml.safe_dump(values, sort_keys=False)


def portable(text: str) -> str:
    r"""A written configuration without the folders of this machine, for other eyes.

    Args:
        text: Content of a run's `config.yaml`, whose local paths are absolute.

    Returns:
        The same, every path of data and tracking cut to its last part; `s3://` URIs as they are.

    >>> portable("source: {images: /home/me/faces, data: 's3://b/x'}")
    'source:\n  images: faces\n  data: s3://b/x\n'
    """
    values = yaml.safe_load(text)
    for section in ("source", "tracking"):
        for key, value in values.get(section, {}).items():
            if isinstance(value, str):
                values[section][key] = re.sub(r"^(sqlite:///|file://)?/(.*/)?", r"\1", value)
    return yaml.safe_dump(values, sort_keys=False)


INPUTS = "compared"  # what `scotoma compare` writes for the audit to read
BEFORE = (LOCK, LOGS, "error.json", INPUTS)  # what may be there before an audit begins


@dataclass(frozen=True)
class Run:
    """One audit's folder and what it audits.

    Attributes:
        root: The folder; of a run in object storage, its local copy.
        config: What is audited.
        uri: `s3://BUCKET/PREFIX` of a run in object storage, else empty.
    """

    root: Path
    config: Config
    uri: str = ""

    @classmethod
    def of(cls, place: str, config: Config) -> Run:
        """A place where nothing need be: a path or `s3://BUCKET/PREFIX`."""
        mirror = Mirror.of(place)
        return cls(mirror.root, config, mirror.uri)

    @classmethod
    def create(cls, place: str | Path, config: Config) -> Run:
        """Make the folder, or take it up again.

        Args:
            place: A path or `s3://BUCKET/PREFIX`.
            config: What is to be audited.

        Raises:
            ConfigError: It holds the run of other models, a link, or something else.
            DataError: The object storage cannot be read or written.
        """
        mirror = Mirror.of(str(place))
        root, uri = mirror.root, mirror.uri
        if not uri and root.is_file():
            raise ConfigError(f"output folder {root} is a file; choose another --out")
        if not uri and any(parent.is_file() for parent in root.parents):
            raise ConfigError(f"output folder {root} is below a file; choose another --out")
        run, there = cls(root if uri else root.resolve(), config, uri), config
        refuse_links(run.root)
        names = mirror.names() if uri else os.listdir(root) if root.is_dir() else []
        here, way_out = run.path("config.yaml"), "choose another --out"
        if here.name in names:
            origin = storage.join(str(place), here.name)
            text = storage.read_bytes(origin, listed=bool(uri)).decode("utf-8", "replace")
            there = settings.parse_config(text, origin)
            if there.models_digest() != config.models_digest():
                raise ConfigError(
                    f"output folder {place} belongs to another configuration: "
                    f"{differing(there.deciding_models(), config.deciding_models())}; {way_out}, "
                    "or remove it"
                )
        elif any(name.partition("/")[0] not in BEFORE for name in names):
            what = "objects" if uri else "files"
            raise ConfigError(
                f"output folder {place} holds other {what} and no config.yaml; {way_out}"
            )
        if uri:
            way_out = WRITABLE
            if (
                here.exists()
                and settings.load_config(here).models_digest() != there.models_digest()
            ):
                shutil.rmtree(root)  # the copy of a run that is no longer in the storage
        try:
            run.root.mkdir(parents=True, exist_ok=True)
            # A configuration that measured other things stays, see `adopt_config`.
            same = there.digest() == config.digest()
            replace(run, config=config if same else there).write_config()
        except OSError as error:
            shown = root if uri else place
            raise ConfigError(
                f"output folder {shown} cannot be written: {error.strerror}; {way_out}"
            ) from error
        run.publish(here)  # which also tells whether the storage can be written
        return run

    @classmethod
    def open(cls, place: str | Path) -> Run:
        """A folder, or place in object storage, that `create` made.

        Raises:
            ConfigError: Its configuration cannot be read, or it holds a link.
            DataError: The object storage cannot be read, or holds no run there.
        """
        mirror = Mirror.of(str(place))
        refuse_links(mirror.root)
        here = mirror.root / "config.yaml"
        try:
            mirror.fetch([here])
        except OSError as error:
            raise ConfigError(
                f"the copy of {place} at {mirror.root} cannot be written: {error.strerror}; "
                f"{WRITABLE}"
            ) from error
        if mirror.uri and not here.exists():
            raise DataError(f"{place} must hold a run, got no config.yaml; correct the address")
        return cls(mirror.root, settings.load_config(here), mirror.uri)

    def adopt_config(self) -> str:
        """Write the configuration in the place of one that measured other things.

        Returns:
            What differs, as a clause; empty where nothing does.
        """
        here = self.path("config.yaml")
        changes = differing(settings.load_config(here).deciding(), self.config.deciding())
        if changes:
            self.write_config()
            self.publish(here)
        return changes

    @property
    def place(self) -> str:
        """What `open` takes: the path or the URI."""
        return self.uri or str(self.root)

    @property
    def mirror(self) -> Mirror:
        """The folder beside what it stands for in object storage."""
        return Mirror(self.root, self.uri)

    def publish(self, *paths: Path) -> None:
        """Send finished files to object storage, if the run lies there."""
        self.mirror.publish(paths)

    def fetch(self, *paths: Path) -> None:
        """Bring files here that are absent or differ, if the run lies in object storage."""
        self.mirror.fetch(paths)

    def write_config(self) -> None:
        """Write the configuration with every default filled in and no credentials."""
        with written(self.path("config.yaml")) as temporary:
            temporary.write_text(shareable(self.config), encoding="utf-8")

    def path(self, *parts: str) -> Path:
        """A path inside the folder."""
        return self.root.joinpath(*parts)

    @property
    def examples(self) -> Path:
        """The examples, both splits."""
        return self.path("examples.parquet")

    def population(self, variant: str) -> Path:
        """The folder of one population."""
        return self.path("populations", variant)

    def member(self, variant: str, index: int) -> Path:
        """The weights of one member."""
        graph = self.config.variant(variant).derived_from or self.config.source.has_models
        suffix = ".onnx" if graph else ".safetensors"
        return self.population(variant) / f"member-{index:03d}{suffix}"

    def predictions(self, variant: str, shard: int | None = None) -> Path:
        """The predictions of one variant, or of one shard of its members."""
        name = f"{variant}.parquet"
        return (
            self.path("predictions", name)
            if shard is None
            else self.path("shards", f"{shard:03d}", "predictions", name)
        )

    def scores(self, variant: str, index: int) -> Path:
        """Every score of one member, where the configuration keeps them."""
        return self.path("scores", variant, f"member-{index:03d}.parquet")

    @property
    def strip(self) -> Path:
        """One public picture under every corruption, where members were run on corrupted ones."""
        return self.path("robustness", "strip.webp")

    @property
    def costs(self) -> Path:
        """Sizes and latencies of a member a variant, which always differ; no step reads them."""
        return self.path("shards", "000", "costs.json")

    @property
    def previous(self) -> Path:
        """The audit before this one, where they are compared."""
        return self.path("previous.json")

    def section(self, name: str) -> Path:
        """One part of audit.json, as the step that measured it left it."""
        return self.path("sections", f"{name}.json")

    @property
    def class_rates(self) -> Path:
        """The rates of single classes that are too many for audit.json: rows of numbers.parquet."""
        return self.path("sections", "rates.parquet")

    @contextmanager
    def step(
        self,
        name: str,
        outputs: Iterable[Path],
        inputs: Iterable[Path] = (),
        made_with: str = "",
        opens: Iterable[Path] = (),
        measures: bool = True,
    ) -> Iterator[bool]:
        """One step: skipped if its finished, matching outputs are there, timed if not.

        Args:
            name: Unique in the run.
            outputs: The files that the step must leave.
            inputs: The files that it reads; if one changes, the step is due again.
            made_with: What else decides its outputs, such as versions of libraries.
            opens: Files of which it reads a part, whose digest is in `made_with`.
            measures: Whether groups, names and the like decide its outputs.

        Yields:
            Whether there is anything to do.

        Raises:
            DataError: An input is not there, or object storage does not show it yet.
            RuntimeError: The step ended without one of its outputs.
        """
        outputs, inputs, opens = list(outputs), list(inputs), list(opens)
        record = self.path("steps", f"{name}.json")
        with self.mirror.listed():
            key, finished = self._key(name, outputs, inputs, made_with, measures)
            if not finished:
                self.fetch(*inputs, *opens)
        if finished:
            yield False
            return
        self.mirror.forget_listing()  # workers write from here on
        for path in (*inputs, *opens):
            if not path.is_file():
                self._refuse_absent(path)
        began = time.perf_counter()
        yield True
        if missing := [str(path) for path in outputs if not path.exists()]:
            raise RuntimeError(f"step {name} ended without {', '.join(missing)}")
        write_json(
            record,
            {
                "key": key,
                "outputs": {self._relative(path): file_digest(path) for path in outputs},
                "time_s": round(time.perf_counter() - began, 3),
            },
        )
        self.publish(*outputs)
        self.publish(record)  # last: what it names is there

    def is_due(self, name: str, outputs: list[Path], *, made_with: str, measures: bool) -> bool:
        """Tell whether `step` with these arguments, and no inputs, would have anything to do."""
        with self.mirror.listed():
            return not self._key(name, outputs, [], made_with, measures)[1]

    def _key(
        self, name: str, outputs: list[Path], inputs: list[Path], made_with: str, measures: bool
    ) -> tuple[str, bool]:
        """Digest what decides a step's outputs, and whether it has ended with them."""
        record = self.path("steps", f"{name}.json")
        self.fetch(record)
        config = self.config.digest() if measures else self.config.models_digest()
        made_from = [config, code_digest(), name, made_with]
        for path, digest in self.mirror.digests(inputs).items():
            made_from.append(digest or self._refuse_absent(path))
        key = hashlib.sha256("/".join(made_from).encode()).hexdigest()
        return key, self._finished(record, key, outputs)

    def _finished(self, record: Path, key: str, outputs: list[Path]) -> bool:
        """Whether a step has ended with this key and left these files; what is unsent is sent."""
        finished = read_record(record)
        if finished.get("key") != key:
            return False
        located, unsent = self.mirror.located(outputs)
        if finished.get("outputs") != {self._relative(path): d for path, d in located.items()}:
            return False
        self.publish(*unsent)  # no other: a copy here may be damaged
        self.publish(record)
        return True

    @property
    def newest(self) -> str | None:
        """What was newest when the run began, in words; None where its source does not ask."""
        path = self.path("newest.json")
        self.fetch(path)
        return read_json(path)["newest"] if path.exists() else None

    def leave_newest(self, newest: Newest | None) -> None:
        """Write down what is newest; nothing where the source does not ask."""
        if newest is not None:
            write_json(self.path("newest.json"), {"newest": str(newest), **asdict(newest)})
            self.publish(self.path("newest.json"))

    def forget(self, name: str) -> None:
        """Let a step be done again by the next run."""
        record = self.path("steps", f"{name}.json")
        write_json(record, read_record(record) | {"key": ""})
        self.publish(record)

    def rewritten(self, name: str, path: Path) -> list[Path]:
        """Say that a command has written an output of a step anew, which the next run makes again.

        Returns:
            What changed: the file, and the step's record where it has one.
        """
        record = self.path("steps", f"{name}.json")
        self.fetch(record)
        if not record.exists():
            return [path]
        content = read_record(record)
        outputs = content.get("outputs", {}) | {self._relative(path): file_digest(path)}
        write_json(record, content | {"key": "", "outputs": outputs})
        return [path, record]

    def _refuse_absent(self, path: Path) -> NoReturn:
        raise DataError(
            f"{self.mirror.place(path)}, the output of an earlier step, is missing; repeat the "
            "command"
        )

    def _relative(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()
