"""Which variants do files of predictions hold, and what did their models say of each example?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scotoma.answers.note import AdmissionNote, reading_note
from scotoma.config.sections import Population
from scotoma.config.variants import NAME_BYTES, Predicted, VariantEntry
from scotoma.datasets.examples import AuditedExamples
from scotoma.errors import ConfigError, DataError
from scotoma.predictions.external import ExternalPredictions, PredictionRequest, read_external
from scotoma.predictions.reruns import example_of_row, join_reruns, rerun_rows, with_reruns
from scotoma.predictions.tables import models_by_variant, predicted_classes, reruns_by_variant
from scotoma.printable import nearest, printable
from scotoma.readers.tables import encoding_notes

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
                    f"source.files: {', '.join(repr(one) for one in supplied if one != dense)}"
                    f"{nearest(name, supplied)}"
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
    label, source = config.label, config.source
    known = label.column is not None or label.threshold is not None or source.known_classes
    if source.score is not None or known:
        return config
    found = predicted_classes(tables, names_in_files(config).values(), config.limits)
    return config.with_source(classes=found)


def _baseline(config: Config, known: Sequence[str]) -> str:
    dense = config.baseline or "dense"
    if dense in known:
        return dense
    shown = ", ".join(map(repr, known[:10]))
    raise ConfigError(
        f"baseline {dense!r} is not in source.files, which has {shown}{nearest(dense, known)}"
        if config.baseline
        else "source.files must hold a variant called 'dense', or baseline must name another; it "
        f"has {shown}: write baseline: {printable(known[0])}, if that is it"
    )


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
            lone = min({*supplied[variant.name]} ^ {*supplied[dense]})
            raise ConfigError(
                f"models of {variant.name!r} are paired with those of {dense!r} by their names, "
                f"but {printable(lone)!r} is in one of them only; name both alike, or leave out "
                "`paired`"
            )


def names_in_files(config: Config) -> dict[str, str]:
    """Variants of the audit, and what the files call them: the baseline is the dense one."""
    return {
        variant.name: (config.baseline or "dense") if variant.kind == "dense" else variant.name
        for variant in config.resolved_variants
    }


@dataclass(frozen=True)
class SuppliedAnswers:
    """What the files of an audit hold, listed once for all that ask: each file is read for it.

    Attributes:
        config: As `completed` leaves it.
        reruns: What the files call a variant, to model to the names of its reruns.
    """

    config: Config
    reruns: Mapping[str, Mapping[str, Sequence[str]]]

    @classmethod
    def of(cls, config: Config) -> SuppliedAnswers:
        """List them.

        Raises:
            DataError: See `reruns_by_variant`.
        """
        return cls(config, reruns_by_variant(config.source.tables(), config.limits))

    @cached_property
    def audited(self) -> dict[str, dict[str, Sequence[str]]]:
        """By variant the models that are audited, and their reruns."""
        return {
            name: dict(list(self.reruns[called].items())[: self.config.models_of(name)])
            for name, called in names_in_files(self.config).items()
        }

    @cached_property
    def rows(self) -> int:
        """How many rows each example takes: 1 unless an audited model was evaluated again."""
        return rerun_rows(len(own) for models in self.audited.values() for own in models.values())

    def told(self, examples: AuditedExamples) -> AuditedExamples:
        """The examples, a row for each rerun, with notes on what the audit does not take.

        Raises:
            DataError: They have several labels, and reruns.
        """
        if self.rows > 1 and self.config.label.columns:
            raise DataError(
                "predictions of several labels must hold one run of each model, got "
                f"{self.rows} reruns; name the reruns as models, or keep one"
            )
        examples = with_reruns(examples, self.rows)
        return replace(examples, admission=(*examples.admission, *self._left_out()))

    def _left_out(self) -> Iterator[AdmissionNote]:
        config, names = self.config, names_in_files(self.config)
        yield from encoding_notes((one.place for one in config.source.tables()), config.limits)
        if others := [name for name in self.reruns if name not in names.values()]:
            sentence = f"source.files also holds {', '.join(map(repr, others))}, not audited"
            yield reading_note("source.files", sentence)
        for name, called in names.items():
            if (held := len(self.reruns[called])) > (models := config.models_of(name)):
                sentence = f"of {held} models of {called!r} the first {models} by name are audited"
                yield reading_note(called, sentence, name)

    def read(self, examples: AuditedExamples) -> Iterator[tuple[str, ExternalPredictions]]:
        """What the models of each variant predict, or score, a column a model.

        Args:
            examples: The test examples, a row for each rerun.

        Raises:
            DataError: See `read_external`; every score is asked for, and there are reruns.
        """
        config, source, rows = self.config, self.config.source, self.rows
        asked = replace(
            self._request(examples, [*self.audited], rows),
            scores=config.keep_scores is True,
            numbers="" if source.score is None else source.score.column,
            every_score=config.keeps_every_score,
        )
        if asked.every_score and rows > 1:
            raise DataError(
                f"keep_scores full is for one answer to an example, and source.files has {rows} "
                "reruns; choose true or false"
            )
        said = read_external(source.tables(), asked)
        clusters = None if examples.clusters is None else examples.clusters[::rows]
        for name, called in names_in_files(config).items():
            own = source.judged(said[called], name, config, asked.ids, clusters)
            yield name, join_reruns(own, self.audited[name], rows)

    def baseline_errors(self, examples: AuditedExamples) -> NDArray[np.float64] | None:
        """How often the models of the baseline err on each example.

        Args:
            examples: The test examples, one row each.

        Returns:
            Shares of the models, each the mean over its reruns, shape (N,); None where examples
            have no labels.

        Raises:
            DataError: See `read_external`.
        """
        if not examples.labelled:
            return None
        (said,) = read_external(
            self.config.source.tables(), self._request(examples, ["dense"])
        ).values()
        wrong = said.predicted != examples.labels[:, None]
        ends = np.cumsum([*map(len, self.audited["dense"].values())])[:-1]
        shares: NDArray[np.float64] = np.mean(
            [own.mean(axis=1) for own in np.split(wrong, ends, axis=1)], axis=0
        )
        return shares

    def _request(
        self, examples: AuditedExamples, variants: Sequence[str], rows: int = 1
    ) -> PredictionRequest:
        """What is read of some variants: the classes that their models answer."""
        config, label, called = self.config, self.config.label, names_in_files(self.config)
        models = {
            called[name]: [again for own in self.audited[name].values() for again in own]
            for name in variants
        }
        ids = examples.ids if rows == 1 else list(map(example_of_row, examples.ids[::rows]))
        unlabelled = frozenset[str]()
        # Examples that were left out since they have no label are read only where there are some.
        if label.column and any(note.subject == label.column for note in examples.admission):
            table = config.source.table(config, images=False).table
            unlabelled = frozenset(table["example_id"]) - {*ids}
        return PredictionRequest(
            models, ids, examples.classes, threshold=label.threshold, limits=config.limits,
            labels=label.several, left_out=unlabelled,
        )  # fmt: skip


def supplied_models(config: Config, members: Mapping[str, int]) -> dict[str, list[str]]:
    """List the models that the files of an audit hold.

    Args:
        config: As `completed` leaves it.
        members: Variant to how many of its models are asked for.

    Returns:
        By what files call a variant, its first models in natural order.
    """
    tables = config.source.tables()
    supplied, named = models_by_variant(tables, config.limits), names_in_files(config)
    return {named[name]: supplied[named[name]][:count] for name, count in members.items()}
