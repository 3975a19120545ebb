"""Which runs does a tournament compare? Those of raw files, or of finished audits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scotoma.commands.variance.measure import canonical_table
from scotoma.config.sheet import Sheet
from scotoma.config.techniques import TechniqueFacts
from scotoma.errors import ConfigError, DataError
from scotoma.numbers.inputs import Floats
from scotoma.printable import listed, quoted
from scotoma.processes.untrusted import read_apart
from scotoma.readers.tables import open_arrays, read_table
from scotoma.runs import ACCURACY, RunSets, VariantSets, run_sets
from scotoma.storage.regular import open_regular

if TYPE_CHECKING:
    from scotoma.audit import Audit
    from scotoma.papers.finished import FinishedAudit

__all__ = ["FinishedTechniques", "read_finished", "read_raw"]

ACCURACIES = (ACCURACY, "perf", "mAP", "top1")  # what files call it
METRIC_NAMES = {"DI bar": "DI"}  # the study's files to its tables
COLUMNS = {name: name for name in ("technique", "metric", "run", "value")}
TABLES = (".csv", ".csv.gz", ".parquet")
SHEETS = (".yaml", ".yml")


@dataclass(frozen=True, eq=False)
class FinishedTechniques:
    """Techniques whose models were audited, one run a technique.

    Attributes:
        audits: What each technique's audit has left.
        variants: The variants that all have, dense first.
        metrics: Names of the metrics.
        attribute: Whose groups are compared.
        sets: Bias and accuracy, one value a seed.
    """

    audits: Mapping[str, FinishedAudit]
    variants: tuple[str, ...]
    metrics: tuple[str, ...]
    attribute: str
    sets: VariantSets

    def runs(self, variant: str | None) -> RunSets:
        """Take the runs of every technique under a variant, None for dense.

        Raises:
            ConfigError: Not every technique has the variant.
        """
        if variant is not None and variant not in self.variants:
            raise ConfigError(
                f"--variant must be one that all runs have, got {quoted(variant)}: choose among "
                f"{listed(self.variants)}"
            )
        chosen = variant or self.variants[0]
        return {(t, m): own for (t, v, m), own in self.sets.items() if v == chosen}

    def trained(self, holds: Callable[[TechniqueFacts], bool]) -> list[str]:
        """Name the audits that trained with a technique of which something holds."""
        asked = {name: one.run.config.mitigation for name, one in self.audits.items()}
        return [name for name, one in asked.items() if one is not None and holds(one.facts)]

    @property
    def unpaired(self) -> list[str]:
        """Name the compressed variants whose members do not derive from dense ones."""
        compressed = next(iter(self.audits.values())).audit.compressed
        return [one.name for one in compressed if one.name in self.variants and not one.paired]


def read_raw(place: Path) -> dict[tuple[str, str], Floats]:
    """Read values of training runs from a long table, or from every file of a folder.

    A folder holds any of: `TECHNIQUE.yaml`, there or in `overall/`, metric to values; `.npz` files
    of arrays `TECHNIQUE|METRIC`, shape (R,), or (R, C + 1) with the mean over classes last; long
    tables with the columns technique, run, metric and value. Accuracy is a metric that is called
    `accuracy`, `perf`, `mAP` or `top1`; in per cent where a value exceeds 1.

    Args:
        place: CSV or Parquet file, or folder.

    Raises:
        ConfigError: No such place, or one that holds none of these.
        DataError: A value that is no number, or is there twice.
    """
    if place.is_dir():
        files = sorted(
            file
            for folder in (place, place / "overall")
            if folder.is_dir()
            for file in folder.iterdir()
            if file.name.endswith((*TABLES, *SHEETS, ".npz"))
        )
        if not files:
            raise ConfigError(
                f"--raw {quoted(str(place))} must hold .yaml, .npz, .csv or .parquet files, got "
                "none: name the folder of the runs"
            )
    else:
        files = [place]
    sets: dict[tuple[str, str], Floats] = {}
    for file in files:
        for technique, metric, own in _values(file):
            if (technique, metric) in sets:
                raise DataError(
                    f"technique {quoted(technique)}, metric {quoted(metric)} is in several files "
                    f"of {quoted(str(place))}: keep one of them"
                )
            sets[technique, metric] = own
    for technique in dict.fromkeys(name for name, _ in sets):
        _name_accuracy(technique, sets)
    return sets


def _name_accuracy(technique: str, sets: dict[tuple[str, str], Floats]) -> None:
    """Give the accuracy of a technique its one name and unit."""
    metrics = [metric for name, metric in sets if name == technique]
    known = [metric for metric in metrics if metric in ACCURACIES]
    if len(known) > 1:
        raise DataError(
            f"technique {quoted(technique)} must have one accuracy, got {', '.join(known)}: keep "
            "one"
        )
    if metrics == known:
        raise DataError(f"technique {quoted(technique)} has no bias metric: add its values")
    for metric in known:
        accuracy = sets.pop((technique, metric))
        sets[technique, ACCURACY] = accuracy / 100 if (accuracy > 1).any() else accuracy


def _values(file: Path) -> Iterator[tuple[str, str, Floats]]:
    """Technique, metric and values of its runs."""
    if file.name.endswith(".npz"):
        arrays = read_apart(_npz, str(file), path=file, called=file.name)
        for key, array in arrays.items():
            technique, _, metric = key.rpartition("|")
            if not technique:
                raise DataError(
                    f"array {quoted(key)} of {quoted(file.name)} must be called TECHNIQUE|METRIC: "
                    "rename it"
                )
            yield technique, METRIC_NAMES.get(metric, metric), _column(array, key)
    elif file.name.endswith(SHEETS):
        with open_regular(file) as opened:
            text = opened.read().decode("utf-8", "replace")
        for metric, own in Sheet.read(text, file.name).values.items():
            name = METRIC_NAMES.get(str(metric), str(metric))
            yield file.stem, name, _column(own, f"{file.stem}, {name}")
    else:
        table = canonical_table(read_table(file).frame, COLUMNS)
        for (technique, metric), own in run_sets(table.sort("run", maintain_order=True)).items():
            yield technique, METRIC_NAMES.get(metric, metric), own.overall


def _npz(path: str) -> dict[str, Any]:
    """Arrays of numbers by name, as lists; runs in the process that reads files."""
    name = quoted(Path(path).name)
    with open_arrays(Path(path), name) as arrays:
        return {key: _listed(arrays[key], f"array {quoted(key)} of {name}") for key in arrays.files}


def _listed(array: Any, name: str) -> list[Any]:
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name} must hold numbers, got {array.dtype}: write one number a run")
    values: list[Any] = array.astype(np.float64).tolist()
    return values


def _column(values: Any, name: str) -> Floats:
    """One value a run: the last column where there is one for each class, then the mean."""
    try:
        array = np.array(values, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"values of {quoted(name)} must be one number a run, got {quoted(str(values)[:40])}: "
            "write numbers"
        ) from error
    if array.ndim == 2 and array.shape[1]:
        array = array[:, -1]
    if array.ndim != 1 or not array.size:
        raise DataError(
            f"values of {quoted(name)} must be one number a run, got shape {array.shape}: write a "
            "list"
        )
    return array


def read_finished(places: Sequence[str], attribute: str | None) -> FinishedTechniques:
    """Read the members of finished audits, one audit a technique.

    Args:
        places: `FOLDER` or `TECHNIQUE=FOLDER`; without a name, the folder's own.
        attribute: The attribute whose groups are compared; None where the audits have one.

    Raises:
        ConfigError: A place without an audit, a name that stands twice, an attribute to choose.
        DataError: Audits of other seeds, or without a metric.
    """
    from scotoma.papers.finished import FinishedAudit
    from scotoma.run.finished import open_run

    every: dict[str, FinishedAudit] = {}
    for place in places:
        name, _, folder = place.rpartition("=")
        name = name or Path(folder.rstrip("/")).name
        if name in every:
            raise ConfigError(
                f"technique {quoted(name)} stands twice: name runs as TECHNIQUE=FOLDER"
            )
        every[name] = FinishedAudit(open_run(folder))
    audits = {name: one.audit for name, one in every.items()}
    chosen = _attribute(audits, attribute)
    first = next(iter(audits.values()))
    variants = [
        one.name
        for one in first.variants
        if all(audit.numbers("fairness", one.name) for audit in audits.values())
    ]
    metrics = list(_by_metric(first, variants[0], chosen))
    _check_paired(audits, variants)
    sets: dict[tuple[str, str, str], Floats] = {}
    for (name, audit), variant in product(audits.items(), variants):
        for metric, values in _by_metric(audit, variant, chosen).items():
            sets[name, variant, metric] = _numbers(values)
        sets[name, variant, ACCURACY] = _numbers(audit.accuracy[variant].members)
    return FinishedTechniques(every, tuple(variants), tuple(metrics), chosen, sets)


def _by_metric(audit: Audit, variant: str, attribute: str) -> dict[str, tuple[float | None, ...]]:
    """What every model has of each metric of an attribute."""
    return {
        str(row.metric): row.models
        for row in audit.numbers("fairness", variant)
        if row.models and row.fact("attribute") == attribute
    }


def _numbers(values: Iterable[float | None]) -> Floats:
    """One value a member; nan where it is undefined."""
    return np.array([np.nan if one is None else one for one in values], np.float64)


def _check_paired(audits: Mapping[str, Audit], variants: Iterable[str]) -> None:
    """Refuse audits whose members are not of the same seeds."""
    if unlabelled := [name for name, audit in audits.items() if not audit.accuracy]:
        raise DataError(
            f"run {quoted(unlabelled[0])} has no labels, so no accuracy: audit it with labels"
        )
    if len({audit.seed for audit in audits.values()}) > 1:
        seeds = ", ".join(f"{audit.seed} of {quoted(name)}" for name, audit in audits.items())
        raise DataError(f"runs must share their seed to be paired, got {seeds}: audit them again")
    sizes = {
        (name, variant): len(audit.accuracy[variant].members)
        for name, audit in audits.items()
        for variant in variants
    }
    if len(set(sizes.values())) > 1:
        least = min(sizes, key=lambda key: sizes[key])
        raise DataError(
            f"runs must have as many members to be paired, got {sizes[least]} of "
            f"{quoted(least[0])} under {quoted(least[1])} and {max(sizes.values())} elsewhere: "
            "train as many of each"
        )


def _attribute(audits: Mapping[str, Audit], attribute: str | None) -> str:
    """The attribute that all audits measured."""
    by_audit = [
        dict.fromkeys(row.fact("attribute") for row in audit.numbers("fairness"))
        for audit in audits.values()
    ]
    shared = [one for one in by_audit[0] if all(one in others for others in by_audit)]
    if not shared:
        raise DataError(
            "no attribute was measured in all runs: audit each technique with the same groups"
        )
    if attribute is None and len(shared) > 1:
        raise ConfigError(f"--attribute must name one of {listed(shared)}: choose one")
    if attribute is not None and attribute not in shared:
        raise ConfigError(
            f"--attribute must be measured in all runs, got {quoted(attribute)}: choose among "
            f"{listed(shared)}"
        )
    return attribute or shared[0]
