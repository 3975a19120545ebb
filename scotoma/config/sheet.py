"""YAML that people write: read once, every fault with its line."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from scotoma.errors import ConfigError, DataError
from scotoma.printable import nearest, printable
from scotoma.storage.credentials import masked
from scotoma.storage.files import open_regular

Location = tuple[str | int, ...]


@dataclass(frozen=True)
class Says:
    """Marks a type: what a value of its pattern must be, or what to do beyond its limit."""

    words: str


Checked = TypeVar("Checked", bound=BaseModel)


TAGS = {"kind", "metric"}  # keys that say which of several models is meant
MOST_CHARACTERS = 200_000  # of a file: reading them takes seconds
MOST_VALUES = 100_000  # of a file, anchors written out: a few lines can stand for a billion


class _Loader(yaml.SafeLoader):
    """YAML in which a day stays text, so that one that is none is named with its line.

    Attributes:
        sizes: Values in each node, those of an anchor wherever it is named; of a loop, once.
        doubled: Line and sentence of a key that stands twice, of which YAML itself keeps the last.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012  PyYAML's own name and type
        first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.sizes: dict[int, int] = {}
        self.doubled = ""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node, before merged keys (<<) are written out in it."""
        node = super().compose_node(parent, index)
        if isinstance(node, yaml.CollectionNode):
            inner = node.value
            if isinstance(node, yaml.MappingNode):
                inner = [one for pair in node.value for one in pair]
                keys = [key.value for key, _ in node.value]
                for place, (key, _) in enumerate(node.value):
                    if isinstance(key.value, str) and key.value in keys[:place]:
                        line = key.start_mark.line + 1
                        self.doubled = f"{line} {key.value} stands twice; keep one of them"
            self.sizes[id(node)] = 1 + sum(self.sizes.get(id(one), 1) for one in inner)
        return node


def checked(
    text: str,
    origin: str,
    model: type[Checked],
    whole: str,
    branches: Mapping[str, Collection[str]],
    special: Callable[[str, Location, dict[str, Any]], str],
) -> Checked:
    r"""The content of a file as a model.

    Args:
        text: Of the file.
        origin: What messages call it.
        model: What the file holds.
        whole: What messages call all of it.
        branches: Key to the names that pydantic gives to the branches of its values.
        special: The sentence on a fault that only this file has; empty for others.

    Raises:
        ConfigError: It is not YAML, holds no keys or one of them twice, or breaks a rule; every
            fault is named with its line.

    >>> from scotoma.config.recipe import Recipe
    >>> checked("crop: 1\ncrop: 2", "gate.yaml", Recipe, "the file", {}, lambda *_: "")
    Traceback (most recent call last):
    ...
    scotoma.errors.ConfigError: gate.yaml:2 crop stands twice; keep one of them
    """
    origin = printable(origin)
    tree, values = read_yaml(text, origin)
    try:
        return model.model_validate_json(json.dumps(values, default=str))  # a fraction is no text
    except ValidationError as error:
        faults: list[tuple[Location, str]] = []
        for found in error.errors():
            location, tag = _in_file(found["loc"], branches)
            fault: dict[str, Any] = {**found}
            path = ".".join(map(str, location)) or whole
            told = special(path, location, fault)
            beside = _models_beside(model, location, tag) if location else []
            if found["loc"][-1:] in (("str",), ("int",)):
                shown = shown_value(fault["input"])
                told = f"{path} should be text or a whole number, got {shown}"
            if fault["type"] == "extra_forbidden":
                keys = list(dict.fromkeys(key for one in beside for key in one.model_fields))
                near = nearest(str(location[-1]), keys)
                told = f"{path} is not a key here; known are {', '.join(keys)}{near}"
            if not told:
                says = (_pattern(one, str(location[-1])) for one in beside)
                told = sentence(path, fault, next(filter(None, says), ""))
            faults.append((location, told))
        if any(place[:1] == ("source",) for place, _ in faults):  # which may name the variants
            faults = [fault for fault in faults if fault[0] != ("variants",)]
        sentences = [f"{origin}:{_line(tree, place)} {masked(told)}" for place, told in faults]
        raise ConfigError(printable("; ".join(dict.fromkeys(sentences)))) from error


def read_yaml(text: str, origin: str) -> tuple[yaml.Node | None, dict[str, Any]]:
    """The nodes of a file, which know their lines, and its content: what JSON can hold, and days.

    Raises:
        ConfigError: It is not YAML, holds no keys, or one of them twice.
    """
    origin = printable(origin)
    try:
        if len(text) > MOST_CHARACTERS:
            raise ValueError(f"it has more than {MOST_CHARACTERS:,} characters")
        loader = _Loader(text)
        tree = loader.get_single_node()
        if loader.sizes.get(id(tree), 1) > MOST_VALUES:
            raise ValueError(f"its anchors stand for more than {MOST_VALUES:,} values")
        values = None if tree is None else loader.construct_document(tree)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = " ".join(str(error).split())
        raise ConfigError(printable(f"{origin} is not YAML: {problem}")) from error
    except (LookupError, TypeError, AttributeError) as error:  # of a value with a tag
        problem = "a value is not of the type that its tag (!!) names"
        raise ConfigError(printable(f"{origin} is not YAML: {problem}")) from error
    if not isinstance(values, dict):
        raise ConfigError(f"{origin} must hold keys and values, got {type(values).__name__}")
    if loader.doubled:
        raise ConfigError(printable(f"{origin}:{loader.doubled}"))
    try:
        json.dumps(values, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{origin} must be a tree of words, numbers and lists: {error}; write keys as "
            "words and leave out YAML anchors"
        ) from error
    return tree, values


def file_text(path: Path, kind: str) -> str:
    """Text of a file that people write, read no further than `MOST_CHARACTERS`.

    Args:
        path: The file.
        kind: What messages call it: `configuration`.

    Raises:
        ConfigError: It is no file, cannot be read or is not UTF-8.
    """
    try:
        with open_regular(path) as file:
            return file.read(4 * MOST_CHARACTERS + 4).decode("utf-8")
    except DataError as error:
        raise ConfigError(f"{kind} {error}") from None
    except (OSError, ValueError) as error:  # also bytes that no path and no UTF-8 text has
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"{kind} {printable(str(path))} cannot be read: {reason}") from error


def shown_value(value: Any) -> str:
    """A value as a message shows it."""
    return repr(value) if isinstance(value, str) else json.dumps(value)


def sentence(path: str, fault: dict[str, Any], says: str = "") -> str:
    """What is wrong with a value, for the kinds of fault that every file has.

    Args:
        path: The place in the file: `population.models`.
        fault: What pydantic found there.
        says: What a pattern stands for, or the way out beyond a limit.

    >>> sentence("alpha", {"type": "less_than", "input": 5, "ctx": {"lt": 0.5}})
    'alpha must be less than 0.5, got 5'
    """
    context, shown = fault.get("ctx", {}), shown_value(fault["input"])
    way_out = f"; {says}" if says else ""
    match fault["type"]:
        case "missing":
            return f"{path} is missing; it has no default"
        case "greater_than_equal":
            return f"{path} must be at least {context['ge']}, got {shown}"
        case "greater_than":
            return f"{path} must be greater than {context['gt']}, got {shown}"
        case "less_than":
            return f"{path} must be less than {context['lt']}, got {shown}{way_out}"
        case "less_than_equal":
            return f"{path} must be at most {context['le']}, got {shown}{way_out}"
        case "value_error":
            return f"{context['error']}"
        case "union_tag_invalid":
            tag = context["discriminator"].strip("'")
            return f"{path}.{tag} must be one of {context['expected_tags']}, got {context['tag']!r}"
        case "too_short" if not context["actual_length"]:
            return f"{path} must hold at least one entry, got none"
        case "string_too_short":
            return f"{path} must not be empty, got {shown}; write what it is"
        case "string_pattern_mismatch":
            return f"{path} must {says}, got {shown}"
        case "date_from_datetime_parsing" | "date_parsing" | "date_type":
            return f"{path} must be a day such as 2027-03-01, got {shown}"
        case _:
            rule = fault["msg"].partition("should ")[2] or fault["msg"]
            rule = rule.partition(" after validation")[0]  # it repeats what was got
            return f"{path} should {rule}, got {shown}"


def _models_beside(root: type[BaseModel], location: Location, tag: str) -> list[type[BaseModel]]:
    """The models that may hold the last key of a location.

    Args:
        root: Model of the file.
        location: In the file.
        tag: What tells which of several models is meant: a kind of source, a metric.
    """
    models = [root]
    for part in location[:-1]:
        inner = [one for model in models for one in _models_in(_annotation(model, str(part)))]
        models = [one for one in inner if tag in _tags(one)] or inner or models
    return models


def _annotation(model: type[BaseModel], key: str) -> Any:
    """What a key may hold, with all that is said of it."""
    if (field := model.model_fields.get(key)) is None:
        return getattr(model, "__annotations__", {}).get("__pydantic_extra__")
    return Annotated[(field.annotation, *field.metadata, None)]


def _tags(model: type[BaseModel]) -> list[Any]:
    """The values by which a model is told from others of its union."""
    fields = model.model_fields
    return [one for key in TAGS & fields.keys() for one in get_args(fields[key].annotation)]


def _says(annotation: Any) -> str:
    """What the pattern of an annotation stands for; empty where it has none."""
    marks = [one for one in getattr(annotation, "__metadata__", ()) if isinstance(one, Says)]
    return marks[0].words if marks else next(filter(None, map(_says, get_args(annotation))), "")


def _pattern(model: type[BaseModel], key: str) -> str:
    """What the pattern of a key stands for."""
    return _says(_annotation(model, key)) if key in model.model_fields else ""


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models that an annotation names."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [one for inner in get_args(annotation) for one in _models_in(inner)]


def _in_file(location: Location, branches: Mapping[str, Collection[str]]) -> tuple[Location, str]:
    """The place in the file, without names of a union's branches; and the first of those."""
    kept: list[str | int] = []
    tag, key, before = "", "", None
    for part in location:
        if (before == key or isinstance(before, int)) and part in branches.get(key, ()):
            tag = tag or str(part)
        else:
            kept.append(part)
            key = part if isinstance(part, str) else key
        before = part
    return tuple(kept), tag


def _line(node: yaml.Node | None, location: Location) -> int:
    """Line of the deepest part of `location` that the file holds, counted from 1."""
    line = 1 if node is None else node.start_mark.line + 1
    for part in location:
        if isinstance(node, yaml.MappingNode):
            own_first = reversed(node.value)  # merged keys (<<) stand before them
            pair = next((pair for pair in own_first if pair[0].value == str(part)), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line
