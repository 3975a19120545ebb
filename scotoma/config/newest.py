"""The newest input: which name stands for `{newest}` in the paths of a source, as of now."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scotoma import storage
from scotoma.answers.natural import natural_order
from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.storage.credentials import masked

if TYPE_CHECKING:
    from scotoma.config.model import Config


SCHEME = "models:"
ADDRESS = re.compile(
    r"models:/(?P<name>[^/:{}]+)(?:@(?P<alias>\w[\w.-]*)|/(?P<version>[1-9][0-9]*))"
)


@dataclass(frozen=True)
class RegisteredModel:
    """A version of a registered model, or the alias that stands for one.

    Attributes:
        name: Of the model.
        version: Its number; empty where there is an alias.
        alias: The alias; empty where there is a version.

    >>> model = RegisteredModel.parse("models:/faces@champion")
    >>> model, str(RegisteredModel("faces", version="7"))
    (RegisteredModel(name='faces', version='', alias='champion'), 'models:/faces/7')
    """

    name: str
    version: str = ""
    alias: str = ""

    @classmethod
    def parse(cls, text: str) -> RegisteredModel | None:
        """What an address names; None for what is no address of a registry, such as a folder.

        Raises:
            ValueError: It begins as an address and is none.
        """
        if not text.startswith(SCHEME):
            return None
        if (match := ADDRESS.fullmatch(text)) is None:
            raise ValueError(
                "source.models must be a folder, models:/NAME@ALIAS or models:/NAME/VERSION, got "
                f"{text!r}"
            )
        return cls(match["name"], match["version"] or "", match["alias"] or "")

    def __str__(self) -> str:
        return f"models:/{self.name}" + (f"@{self.alias}" if self.alias else f"/{self.version}")


MARK = "{newest}"


@dataclass(frozen=True)
class Newest:
    """What a source that asks for the newest was found to mean.

    Attributes:
        name: What stands for `{newest}`; empty where no path asks.
        asked: `models:/NAME@ALIAS`, as the source has it; empty where it has none.
        models: `models:/NAME/VERSION`, which that stands for.

    >>> str(Newest("2026-11", "models:/faces@champion", "models:/faces/7"))
    '2026-11, faces version 7'
    """

    name: str = ""
    asked: str = ""
    models: str = ""

    def __str__(self) -> str:
        model = RegisteredModel.parse(self.models)
        return ", ".join(
            part for part in (self.name, model and f"{model.name} version {model.version}") if part
        )


def asks_for_newest(config: Config) -> bool:
    """Whether a path of the source has `{newest}`."""
    return any(MARK in place for place in config.source.places.values())


def at_newest(config: Config, previous: str = "") -> tuple[Config, str | None]:
    """A configuration with the newest name in every path that asks for one.

    Args:
        config: Its source may have `{newest}` in paths: `s3://bucket/{newest}/images`.
        previous: The name that an interrupted audit resolved; empty to look for it.

    Returns:
        The configuration without placeholders, and the name: the last in natural order of those
        whose files are there for every such path. None where no path asks.

    Raises:
        DataError: No name is there, none has data at all paths, or a path cannot be listed.
    """
    folders = config.source.place_keys()
    asking = {
        key: _Pattern.of(f"source.{key}", path, folder=folders[key])
        for key, path in config.source.places.items()
        if MARK in path
    }
    if not asking:
        return config, None
    name = previous or _newest(list(asking.values()))
    places = {key: pattern.path.replace(MARK, name) for key, pattern in asking.items()}
    return config.with_source(**places), name


@dataclass(frozen=True)
class _Pattern:
    """A path with a placeholder.

    Attributes:
        key: What it is called in sentences.
        path: As the configuration has it.
        folder: What is listed: the part before the placeholder's name.
        name: What a name there is, with the placeholder as its group.
        deeper: Whether names of folders are meant, and not of files.
    """

    key: str
    path: str
    folder: str
    name: str
    deeper: bool

    @classmethod
    def of(cls, key: str, path: str, *, folder: bool) -> _Pattern:
        head, _, tail = path.partition(MARK)
        above, slash, before = head.rpartition("/")
        after, deeper, _ = tail.partition("/")
        bare = above in ("s3:/", "s3:")
        if not slash or bare or re.search(r"[*?\[{]", head + after):
            raise DataError(
                f"{key} must have {MARK} below a folder or bucket and before any wildcard, got "
                f"{masked(path)}; move it to the level to choose from"
            )
        # Hidden names and those that begin with an underscore do not stand for it.
        name = rf"(?s){re.escape(before)}([^._].*){re.escape(after)}"
        return cls(key, path, above or "/", name, bool(deeper) or folder)

    def names(self) -> set[str]:
        """What stands for the placeholder."""
        listed = storage.list_names(self.folder, folders=self.deeper)
        return {match[1] for one in listed if (match := re.fullmatch(self.name, one))}

    def holds(self, name: str) -> bool:
        """Whether the file is there, a file that fits the pattern, or a file in the folder."""
        place = self.path.replace(MARK, name)
        fixed = re.match(r"[^*{]*(?=/)", place) if re.search(r"[*{]", place) else None
        if fixed is not None:
            parts = re.split(r"(\*|\{\w+\})", place[fixed.end() + 1 :])
            wanted = "".join("[^/]*" if k % 2 else re.escape(text) for k, text in enumerate(parts))
            return any(re.fullmatch(wanted, file) for file in storage.list_files(fixed[0]))
        return storage.exists(place) or storage.holds_files(place)


def _newest(patterns: list[_Pattern]) -> str:
    names_by_pattern = {pattern: pattern.names() for pattern in patterns}
    for pattern, names in names_by_pattern.items():
        if not names:
            raise DataError(
                f"{pattern.key} must match a name at {MARK}, got none at {masked(pattern.path)}; "
                "correct the path, or put data there"
            )
    if common := natural_order(set.intersection(*names_by_pattern.values())):
        for name in reversed(common):
            # Data that are still being copied, or an empty folder, are no data.
            if all(pattern.holds(name) for pattern in patterns):
                return name
        lacking = next(pattern for pattern in patterns if not pattern.holds(common[-1]))
        raise DataError(
            f"{lacking.key} must hold data for a name at {MARK}, got none for "
            f"{printable(common[-1])!r}, the newest, at {masked(lacking.path)}; put them there"
        )
    last = ", ".join(
        f"{printable(natural_order(names)[-1])!r} in {pattern.key}"
        for pattern, names in names_by_pattern.items()
    )
    raise DataError(
        f"all paths of source must share a name at {MARK}, but the newest are {last}; give "
        "matching inputs the same name"
    )
