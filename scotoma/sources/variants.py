"""Which variants do files of predictions hold, and how many models of each?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from scotoma.config.sections import Population
from scotoma.config.variants import NAME_BYTES, Predicted, VariantEntry
from scotoma.errors import ConfigError, DataError
from scotoma.predictions.tables import models_by_variant, predicted_classes
from scotoma.printable import nearest, printable

if TYPE_CHECKING:
    from scotoma.config.model import Config


NAME = re.compile(r"\w[\w .,+=@()-]{0,79}")  # of a variant, which also names files


def completed(config: Config) -> Config:
    """The configuration with the variants and the number of models that its files hold.

    Args:
        config: As it was written.

    Returns:
        `variants` named, dense first, and the number of models of each; without labels, and unless
        they are listed, `source.classes` named: those that are predicted.

    Raises:
        ConfigError: A variant or the baseline that is named is not in the files.
        DataError: The files cannot be read, hold one variant, a name that is no name for a file,
            or other numbers of models than are asked for.
    """
    tables = config.source.tables()
    supplied = models_by_variant(tables, config.limits)
    for name in supplied:
        if not NAME.fullmatch(name) or len(name.encode()) > NAME_BYTES:
            raise DataError(
                f"variant {printable(name)[:100]!r} of source.files must have a name of at most 80 "
                f"letters, digits, spaces and . , + = @ ( ) -, and {NAME_BYTES} bytes in UTF-8, "
                "that begins with a letter or digit; rename it"
            )
    dense = _baseline(config, list(supplied))
    if config.variants:
        named = [v.name for v in config.resolved_variants[1:]]
        for name in named:
            if name not in supplied or name == dense:
                raise ConfigError(
                    f"variants names {name!r}, which is not among the compressed ones of "
                    f"source.files: {_others(supplied, dense)}{nearest(name, supplied)}"
                )
        variants = config.variants
    else:
        named = [name for name in supplied if name != dense]
        if not named:
            raise DataError(
                f"source.files must hold a compressed variant beside {dense!r}, got none; add its "
                "predictions"
            )
        if "dense" in named:
            raise ConfigError(
                f"baseline is {dense!r} and source.files has a variant called dense too, which is "
                "what the baseline is called here; rename one of them"
            )
        variants = ["dense", Predicted(predictions=named)]
    _refuse_unpaired(config.model_copy(update={"variants": variants}), supplied, dense)
    models = {name: len(supplied[name]) for name in (dense, *named)}
    population = Population(models=_taken(config, dense, models), seed=config.population.seed)
    counted = [_counted(config, entry, models, population.models) for entry in variants]
    variants = [entry for entries in counted for entry in entries]
    config = config.model_copy(update={"variants": variants, "population": population})
    if config.source.score is not None:
        return config
    if (
        config.label.column is None
        and config.label.threshold is None
        and not config.source.known_classes
    ):
        found = predicted_classes(tables, names_in_files(config).values(), config.limits)
        source = config.source.model_copy(update={"classes": found})
        return config.model_copy(update={"source": source})
    return config


def _baseline(config: Config, known: Sequence[str]) -> str:
    dense = config.baseline or "dense"
    if dense in known:
        return dense
    shown = ", ".join(map(repr, known[:10]))
    if config.baseline is None:
        raise ConfigError(
            f"source.files must hold a variant called 'dense', or baseline must name another; it "
            f"has {shown}: write baseline: {printable(known[0])}, if that is it"
        )
    raise ConfigError(
        f"baseline {dense!r} is not in source.files, which has {shown}{nearest(dense, known)}"
    )


def _others(supplied: Mapping[str, Sequence[str]], dense: str) -> str:
    return ", ".join(repr(name) for name in supplied if name != dense)


def _counted(
    config: Config, entry: VariantEntry, models: Mapping[str, int], dense: int
) -> Iterator[VariantEntry]:
    """Split an entry by how many models its variants have, where that is not as many as dense."""
    if not isinstance(entry, Predicted):
        yield entry
        return
    counts = {name: entry.models or _taken(config, name, models) for name in entry.predictions}
    for count, group in groupby(entry.predictions, counts.__getitem__):
        names = list(group)
        if short := [name for name in names if models[name] < count]:
            raise DataError(_too_few(f"models asks for {count}", short[0], models[short[0]]))
        own = None if count == dense else count
        yield entry.model_copy(update={"predictions": names, "models": own})


def _taken(config: Config, name: str, models: Mapping[str, int]) -> int:
    """Models of a variant: as many as are asked for, else as many as there are."""
    if "models" not in config.population.model_fields_set:
        return models[name]
    asked = config.population.models
    if models[name] < asked:
        what = f"population.models asks for {asked} models of each variant"
        raise DataError(_too_few(what, name, models[name]))
    return asked


def _too_few(asked: str, name: str, models: int) -> str:
    return (
        f"{asked}, but {name!r} has {models}; correct the number, leave it out to take all that "
        "there are, or add models"
    )


def _refuse_unpaired(config: Config, supplied: Mapping[str, Sequence[str]], dense: str) -> None:
    for variant in config.resolved_variants:
        if variant.paired and list(supplied[variant.name]) != list(supplied[dense]):
            one, other = (
                sorted(set(supplied[variant.name]) ^ set(supplied[dense]))[:1],
                variant.name,
            )
            raise ConfigError(
                f"models of {other!r} are paired with those of {dense!r} by their names, but "
                f"{printable(one[0])!r} is in one of them only; name both alike, or leave out "
                "`paired`"
            )


def names_in_files(config: Config) -> dict[str, str]:
    """Variants of the audit, and what the files call them: the baseline is the dense one."""
    return {
        variant.name: (config.baseline or "dense") if variant.kind == "dense" else variant.name
        for variant in config.resolved_variants
    }
