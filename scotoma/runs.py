"""Where a run lives: its folder, what is finished in it, and how files get there whole."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from scotoma.config import Config, load_config
from scotoma.errors import ConfigError

__all__ = ["Run", "code_digest", "file_digest", "read_json", "redact", "write_json", "written"]


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`, renamed to it when the block ends well, removed when not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write JSON with sorted keys, whole or not at all; nan and infinity are refused."""
    text = json.dumps(value, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False)
    with written(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read what `write_json` wrote."""
    return json.loads(path.read_text(encoding="utf-8"))


def file_digest(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def code_digest(part: str = "") -> str:
    """SHA-256 of the source of this package, or of a part: what it made is redone if it changes."""
    root = Path(__file__).parent / part
    digest = hashlib.sha256()
    kinds = (".py", ".html", ".css")
    for path in sorted(path for path in root.rglob("*") if path.suffix in kinds):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def redact(uri: str) -> str:
    """A URI without the user and password in it.

    >>> redact("postgresql://mlflow:s3cret@db:5432/mlflow")
    'postgresql://***@db:5432/mlflow'
    >>> redact("https://host/path?token=abc&x=1")
    'https://host/path?***'
    """
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return uri
    head, query, tail = rest.partition("?")
    if "@" in tail:  # a password may hold a question mark
        return f"{scheme}://***"
    # Up to the last @: a password may hold a slash, a colon or an @ of its own.
    shown = re.sub(r"^.*@", "***@", head, flags=re.DOTALL)
    return f"{scheme}://{shown}" + ("?***" if query else "")


@dataclass(frozen=True)
class Run:
    """One audit's folder and what it audits."""

    root: Path
    config: Config

    @classmethod
    def create(cls, root: Path, config: Config) -> Run:
        """Make the folder, or take it up again.

        Raises:
            ConfigError: It holds the run of another configuration, or something else.
        """
        run = cls(root.resolve(), config)
        if root.is_file():
            raise ConfigError(f"output folder {root} is a file; choose another --out")
        if any(parent.is_file() for parent in root.parents):
            raise ConfigError(f"output folder {root} is below a file; choose another --out")
        if run.path("config.yaml").exists():
            if load_config(run.path("config.yaml")).digest() != config.digest():
                raise ConfigError(
                    f"output folder {root} belongs to another configuration (its config.yaml "
                    "differs); choose another --out, or remove it"
                )
        elif root.is_dir() and any(root.iterdir()):
            raise ConfigError(
                f"output folder {root} holds other files and no config.yaml; choose another --out"
            )
        try:
            root.mkdir(parents=True, exist_ok=True)
            run.write_config()
        except OSError as error:
            raise ConfigError(
                f"output folder {root} cannot be written: {error.strerror}; choose another --out"
            ) from error
        return run

    @classmethod
    def open(cls, root: Path) -> Run:
        """A folder that `create` made."""
        return cls(Path(root), load_config(Path(root) / "config.yaml"))

    def write_config(self) -> None:
        """Write the configuration with every default filled in and no credentials."""
        values = self.config.model_dump(mode="json", exclude_none=True)
        if self.config.tracking.uri:
            values["tracking"]["uri"] = redact(self.config.tracking.uri)
        with written(self.path("config.yaml")) as temporary:
            temporary.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")

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
        suffix = ".onnx" if self.config.variant(variant).kind == "int8" else ".safetensors"
        return self.population(variant) / f"member-{index:03d}{suffix}"

    def predictions(self, variant: str, shard: int | None = None) -> Path:
        """The predictions of one variant, or of one shard of its members."""
        name = f"{variant}.parquet"
        return (
            self.path("predictions", name)
            if shard is None
            else self.path("shards", f"{shard:03d}", "predictions", name)
        )

    def section(self, name: str) -> Path:
        """One part of audit.json, as the step that measured it left it."""
        return self.path("sections", f"{name}.json")

    @contextmanager
    def step(
        self, name: str, outputs: Iterable[Path], inputs: Iterable[Path] = (), made_with: str = ""
    ) -> Iterator[bool]:
        """One step: skipped if its finished, matching outputs are there, timed if not.

        Args:
            name: Unique in the run.
            outputs: The files that the step must leave.
            inputs: The files that it reads; if one changes, the step is due again.
            made_with: What else decides its outputs, such as versions of libraries.

        Yields:
            Whether there is anything to do.

        Raises:
            RuntimeError: The step ended without one of its outputs.
        """
        outputs = list(outputs)
        record = self.path("steps", f"{name}.json")
        made_from = [self.config.digest(), code_digest(), name, made_with]
        made_from += map(file_digest, inputs)
        key = hashlib.sha256("/".join(made_from).encode()).hexdigest()
        if record.exists():
            finished = read_json(record)
            found = {self._relative(path): _digest_or_none(path) for path in outputs}
            if finished["key"] == key and finished["outputs"] == found:
                yield False
                return
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

    def forget(self, name: str) -> None:
        """Let a step be done again by the next run."""
        self.path("steps", f"{name}.json").unlink(missing_ok=True)

    def _relative(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


def _digest_or_none(path: Path) -> str | None:
    return file_digest(path) if path.exists() else None
