"""A model of MLflow's registry, as `source.models` names it in the place of a folder."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
