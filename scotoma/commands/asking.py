"""One way to ask: options are a model, a function answers, the answer has one exit code."""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, TextIO, Union, get_args, get_origin, get_type_hints

import typer
from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo

from scotoma.config.shared import Frozen
from scotoma.document import Document
from scotoma.errors import ConfigError, ScotomaError

NAMES = {int: "WHOLE NUMBER", float: "NUMBER", Path: "PATH", str: "TEXT"}
UNPRINTABLE = r"[^\x20-\x7e\n]"  # what may be: letters of other scripts stay
NO_TABLE = "--csv prints tables, and this answer has none; leave it out"
LEAST = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def argument(shown: str, default: Any = ..., **rules: Any) -> Any:
    """A field of `Options` that is written without a name, in the order of the fields.

    Args:
        shown: What `--help` says of it.
        default: What holds where it is left out; it is required without one.
        rules: Bounds, as pydantic's `Field` takes them.
    """
    return Field(default, description=shown, json_schema_extra={"argument": True}, **rules)


def option(default: Any, shown: str, *, name: str = "", **rules: Any) -> Any:
    """A field of `Options` that is written with a name.

    Args:
        default: What holds where it is left out; `...` where it may not be.
        shown: What `--help` says of it.
        name: How it is written; empty for that of the field: `--as-of` for `as_of`.
        rules: Bounds, as pydantic's `Field` takes them.
    """
    return Field(default, description=shown, json_schema_extra={"name": name}, **rules)


class Options(Frozen, strict=False):
    """What a command can be told; those of all commands are here.

    `panels` parts a long `--help`: the field with which a panel begins, and the panel's title.
    """

    panels: ClassVar[dict[str, str]] = {}

    json_: bool = option(False, "Print JSON, every number unrounded.", name="--json")
    csv: bool = option(False, "Print the tables as CSV, every number unrounded.")
    markdown: bool = option(False, "Print Markdown.")
    html: bool = option(False, "Print a page in HTML.")
    quiet: bool = option(False, "Print no progress and no messages.")

    @property
    def form(self) -> str:
        """How the answer is printed: json, csv, markdown, html or text."""
        return next(iter(self._forms()), "text")

    @property
    def has_table(self) -> bool:
        """Whether the answer has a table, so that --csv is not refused after what it asks for."""
        return True

    @classmethod
    def written(cls, name: str) -> str:
        """How a field is written on the command line: `--as-of`, `CONFIG`."""
        field = cls.model_fields[name]
        return name.upper() if _extra(field).get("argument") else spelling(name, field)

    def _forms(self) -> list[str]:
        wanted = {"json": self.json_, "csv": self.csv, "markdown": self.markdown, "html": self.html}
        return [form for form, asked_for in wanted.items() if asked_for]

    def _misfits(self) -> Iterator[str]:
        if len(forms := self._forms()) > 1:
            yield f"--{' and --'.join(forms)} exclude each other; choose one"
        if self.csv and not self.has_table:
            yield NO_TABLE


class TextOptions(Options):
    """What a command can be told that answers with sentences."""

    @property
    def has_table(self) -> bool:
        """That they are no table."""
        return False


@dataclass(frozen=True)
class Answer:
    """What a command answers, whatever the form in which it is printed.

    Attributes:
        document: What people read; plain text is printed as it is.
        content: What `--json` prints, or the file that holds it; None for the records of the
            document's tables.
        notes: Lines on stderr, unless `--quiet`.
        exit_code: 0 done or PASS, 1 FAIL, 3 UNSURE that fails, 6 valid evidence of a FAIL.
        refusal: What is raised once the answer is printed; None where nothing went wrong.
    """

    document: Document | str
    content: Any = None
    notes: Sequence[str] = ()
    exit_code: int = 0
    refusal: ScotomaError | None = None

    def printed(self, form: str) -> str:
        r"""The answer as json, csv, markdown, html, or as text of 80 columns.

        >>> Answer("done", {"n": 3}).printed("json")
        '{\n "n": 3\n}\n'
        """
        from scotoma.document.html import html_page
        from scotoma.document.jsonable import jsonable
        from scotoma.document.text import document_text, markdown_text

        shown = self.document
        if form == "json":
            content = self.content
            if isinstance(content, Path):
                return content.read_text(encoding="utf-8")
            if content is None:
                content = {table.id: table.records() for table in _document(shown).tables()}
            text = json.dumps(jsonable(content), indent=1, ensure_ascii=False)
            return f"{re.sub(UNPRINTABLE, _escaped, text)}\n"
        if form == "csv":
            tables = list(_document(shown).tables())
            if not tables:
                raise ConfigError(NO_TABLE)
            if len(tables) == 1:
                return tables[0].csv()
            return "\n".join(f"# {table.caption or table.id}\n{table.csv()}" for table in tables)
        if form == "html":
            return html_page(_document(shown))
        if isinstance(shown, str):
            return f"{shown.removesuffix(chr(10))}\n" if shown else ""
        text = markdown_text(shown) if form == "markdown" else document_text(shown)
        return f"{text.removesuffix(chr(10))}\n"


def _escaped(sign: re.Match[str]) -> str:
    """A sign of JSON that could steer a terminal, escaped."""
    return sign[0] if sign[0].isprintable() else json.dumps(sign[0])[1:-1]


def _document(shown: Document | str) -> Document:
    from scotoma.document import Section, Verbatim

    if isinstance(shown, Document):
        return shown
    return Document(
        "Scotoma", sections=[Section("answer", "", parts=[Verbatim("text", "", shown)])]
    )


def typed_command(function: Callable[[Any], Answer]) -> Callable[..., None]:
    """A function of a model of options, as typer takes it: every field is a parameter.

    Args:
        function: Its only parameter, `options`, is annotated with a model of `Options`; its
            docstring is what `--help` says.
    """
    model: type[Options] = get_type_hints(function)["options"]
    own = [name for name in model.model_fields if name not in Options.model_fields]
    fields = {name: model.model_fields[name] for name in (*own, *Options.model_fields)}

    @functools.wraps(function)
    def command(**given: Any) -> None:
        options = _checked(model, given)
        answer = function(options)
        print_out(answer.printed(options.form), sys.stdout)
        if not options.quiet:
            print_out("".join(f"{note}\n" for note in answer.notes), sys.stderr)
        if answer.refusal is not None:
            raise answer.refusal
        if answer.exit_code:
            raise typer.Exit(answer.exit_code)

    parameters, panel = [], None
    for name, field in fields.items():
        panel = model.panels.get(name, None if name in Options.model_fields else panel)
        parameters.append(inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, annotation=_annotation(name, field, panel),
            default=inspect.Parameter.empty if field.is_required() else _default(field),
        ))  # fmt: skip
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    command.__doc__ = "\n\n".join(" ".join(lines.split()) for lines in paragraphs)
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def print_out(text: str, stream: TextIO) -> None:
    """Write to stdout or stderr; a reader who has seen enough does not change the exit code."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        # What is still in the buffer would fail again when the interpreter ends, with code 120.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _annotation(name: str, field: FieldInfo, panel: str | None) -> Any:
    """The type of a parameter and what typer is told of it; a pydantic model checks its values."""
    kind: Any = field.annotation
    if get_origin(kind) in (UnionType, Union):
        kind = next(one for one in get_args(kind) if one is not NoneType)
    if is_list := get_origin(kind) is tuple:
        kind = get_args(kind)[0]
    told: dict[str, Any] = {"help": _help(field), "metavar": NAMES.get(kind)}
    plain: Any = bool if kind is bool else Path if kind is Path else str
    plain = list[plain] if is_list else plain
    if not field.is_required() and kind is not bool:
        plain = plain | None
    if _extra(field).get("argument"):
        return Annotated[plain, typer.Argument(**told | {"metavar": name.upper()})]
    shown = typer.Option(spelling(name, field), rich_help_panel=panel, **told)
    return Annotated[plain, shown]


def _default(field: FieldInfo) -> Any:
    default = field.get_default(call_default_factory=True)
    if default is None or isinstance(default, (bool, Path)):
        return default
    return list(map(str, default)) if isinstance(default, tuple) else str(default)


def _help(field: FieldInfo) -> str:
    """What is said of a field, with its bounds."""
    bounds = [
        f"{words} {getattr(rule, name):g}"
        for rule in field.metadata
        for name, words in LEAST.items()
        if getattr(rule, name, None) is not None
    ]
    known = f" {', '.join(bounds).capitalize()}." if bounds else ""
    return f"{field.description or ''}{known}"


def _extra(field: FieldInfo) -> dict[str, Any]:
    extra = field.json_schema_extra
    return dict(extra) if isinstance(extra, dict) else {}


def spelling(name: str, field: FieldInfo) -> str:
    """How the option of a field is written."""
    return str(_extra(field).get("name") or f"--{name.replace('_', '-')}")


def _checked(model: type[Options], given: dict[str, Any]) -> Options:
    """The options as a model; what breaks its rules is said in one sentence."""
    known = {
        name: value
        for name, value in given.items()
        if value is not None and (value != [] or model.model_fields[name].is_required())
    }
    try:
        return model.model_validate(known)
    except ValidationError as error:
        from scotoma.config.sheet import sentence

        said = []
        for fault in error.errors():
            written = model.written(str(fault["loc"][0])) if fault["loc"] else "the command"
            typed = _typed(fault["input"])
            percent = isinstance(typed, (int, float)) and 1 < typed < 100
            most = [fault.get("ctx", {}).get(bound) for bound in ("lt", "le")]
            way_out = f"write {typed / 100:g} for {typed:g}%" if percent and 1 in most else ""
            said.append(sentence(written, {**fault, "input": typed}, way_out))
        raise ConfigError("; ".join(dict.fromkeys(said))) from error


def _typed(value: Any) -> Any:
    """What was typed, as a sentence shows it: a number bare; nothing for the model as a whole."""
    if not isinstance(value, str):
        return None
    try:
        read = json.loads(value)
    except ValueError:
        return value
    return read if isinstance(read, (int, float)) else value
