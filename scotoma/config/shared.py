"""What the sections of both files share: no unknown keys, and rules that several of them have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Id = Annotated[str, Field(min_length=1, max_length=200)]


class Frozen(BaseModel):
    """A section of a file: no unknown key, no guess at a type, no change afterwards."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True
    )

    def changed(self) -> list[str]:
        """Names of the keys that have been set to other than their defaults."""
        fields = type(self).model_fields.items()
        defaults = {name: field.get_default(call_default_factory=True) for name, field in fields}
        return [name for name, default in defaults.items() if getattr(self, name) != default]

    def _misfits(self) -> Iterator[str]:
        """What in it does not go together, a sentence each."""
        return iter(())

    @model_validator(mode="after")
    def _keys_go_together(self) -> Self:
        for sentence in self._misfits():
            raise ValueError(sentence)
        return self


def as_list(value: Any) -> Any:
    """Take a word for a list of one."""
    return [value] if isinstance(value, str) else value


ONE_OR_MORE = BeforeValidator(as_list)


def twice(names: Sequence[str], rule: str) -> Iterator[str]:
    """The sentence on names that stand twice, if there are any.

    Args:
        names: The names.
        rule: The sentence, with `{}` for them.
    """
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        yield rule.format(", ".join(doubled))


def distinct(rule: str, name: Callable[[Any], str] = str) -> AfterValidator:
    """The rule that nothing in a list has the name of another; see `twice`."""

    def checked(values: list[Any]) -> list[Any]:
        for sentence in twice([name(value) for value in values], rule):
            raise ValueError(sentence)
        return values

    return AfterValidator(checked)
