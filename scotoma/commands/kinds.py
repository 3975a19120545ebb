"""Which kind of comparison fits what `scotoma compare` is given, and who answers it?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os.path import exists

from scotoma.commands.asking import Answer, Options, spelling
from scotoma.commands.compare import CompareOptions
from scotoma.errors import ConfigError
from scotoma.printable import printable
from scotoma.storage import is_remote


@dataclass(frozen=True)
class ComparisonKind:
    """A kind of comparison.

    Attributes:
        called: What the paths are, in the plural.
        fits: Whether the paths, and the options that say which kind they are, allow it.
        reads: Fields of the options that it reads, apart from the forms of the answer.
        answer: Answers it.
        says: Field of the option that asks for this kind where others fit too; empty for the usual
            kind of such paths.
    """

    called: str
    fits: Callable[[CompareOptions], bool]
    reads: frozenset[str]
    answer: Callable[[CompareOptions], Answer]
    says: str = ""


def kind_of(
    options: CompareOptions, kinds: Sequence[ComparisonKind] | None = None
) -> ComparisonKind:
    """The kind of comparison that is asked for.

    Raises:
        ConfigError: None fits, several do, or an option is of another kind.
    """
    known = KINDS if kinds is None else kinds
    fields = CompareOptions.model_fields
    given = [
        name
        for name, field in fields.items()
        if name not in {*Options.model_fields, "paths"} and getattr(options, name) != field.default
    ]

    def written(name: str) -> str:
        return spelling(name, fields[name])

    fitting = [kind for kind in known if kind.fits(options)]
    asked = [kind for kind in fitting if kind.says in given]
    chosen = asked or [kind for kind in fitting if not kind.says] or fitting
    if len(chosen) > 1:
        ways = " or ".join(f"{kind.called} ({written(kind.says)})" for kind in chosen if kind.says)
        end = "leave one out" if asked else "add the option that says which"
        raise ConfigError(f"what is compared can be {ways}; {end}")
    if not options.paths and not chosen:
        raise ConfigError(
            "compare needs the answers of models, got none; name the original's first, then each "
            "compressed one's, or one table of all"
        )
    if len(options.paths) == 1 and not (is_remote(place := options.paths[0]) or exists(place)):
        raise ConfigError(f"{printable(place)} does not exist: check the path")
    if not chosen:
        raise ConfigError(
            f"compare takes {'; '.join(kind.called for kind in known)}, got "
            f"{', '.join(options.paths)}; name the original first, then the compressed"
        )
    (kind,) = chosen
    for name in given:
        if name in kind.reads:
            continue
        owners = [other for other in known if name in other.reads]
        ways = " or ".join(
            written(other.says) for other in owners if other.says and other.says not in given
        )
        raise ConfigError(
            f"{written(name)} is for {' or '.join(other.called for other in owners)}, and these "
            f"are {kind.called}; {f'add {ways}, or ' if ways else ''}leave {written(name)} out"
        )
    return kind


def _logs(options: CompareOptions) -> Answer:
    from scotoma.steps.comparisons import compare_logs

    return compare_logs(options)


def _listing(options: CompareOptions) -> Answer:
    from scotoma.steps.comparisons import list_logs

    return list_logs(options)


def _boxes(options: CompareOptions) -> Answer:
    from scotoma.steps.comparisons import compare_boxes

    return compare_boxes(options)


def _table(options: CompareOptions) -> Answer:
    from scotoma.bias.table import BiasQuestion

    question, (place,) = options.asked(BiasQuestion), options.paths
    if options.score:
        from scotoma.comparison.scores import judge_scores

        if options.four_fifths:
            raise ConfigError(
                "--four-fifths is for classes, and --score measures numbers; leave it out"
            )
        return Answer(*judge_scores(place, question, options.score))
    from scotoma.bias.measure import judge_table

    shown = {"four_fifths": options.four_fifths, "everything": options.everything}
    return Answer(*judge_table(place, question, **shown))


def _metrics(options: CompareOptions) -> Answer:
    from scotoma.bias.clarify.guide import guide_document

    return Answer(guide_document(), content=None)


def _audits(options: CompareOptions) -> Answer:
    from scotoma.predictions.finished import FinishedAudit
    from scotoma.run.finished import open_run
    from scotoma.verdict.two_audits import audit_difference

    first, second = (FinishedAudit(open_run(place)) for place in options.paths)
    return Answer(*audit_difference(first, second, options.paths))


def _runs(options: CompareOptions) -> Answer:
    from scotoma.steps.techniques import compare_table_of_runs

    return compare_table_of_runs(options)


def _raw_runs(options: CompareOptions) -> Answer:
    from scotoma.steps.techniques import compare_raw_runs

    return compare_raw_runs(options)


def _techniques(options: CompareOptions) -> Answer:
    from scotoma.steps.techniques import compare_audits_of_techniques

    return compare_audits_of_techniques(options)


def _trained(options: CompareOptions) -> Answer:
    from scotoma.steps.techniques import compare_trained

    return compare_trained(options)


def _holds_audits(options: CompareOptions) -> bool:
    """Whether a path is that of a finished audit, or says that it is: `TECHNIQUE=FOLDER`."""
    from scotoma import storage

    return any(
        (options.techniques and "=" in place)
        or all(storage.exists(storage.join(place, name)) for name in RUN)
        for place in options.paths
    )


def _names_configuration(options: CompareOptions) -> bool:
    return len(options.paths) == 1 and options.paths[0].lower().endswith((".yaml", ".yml"))


def _is_table(options: CompareOptions) -> bool:
    from scotoma.readers.tables import sniff

    named = bool(options.predicted)  # what is no table is refused by who reads it
    return len(options.paths) == 1 and (named or sniff(options.paths[0]) is not None)


COLUMNS = {"label", "predicted", "identifier"}
GROUPS = {"group", "examples"}
VERDICT = {"out", "gate", "rules", "as_of"}
OF_LOGS = {"score", "task", "right_from", "filter_", "reruns", "refusal", "tracking", "positive"}
OF_LOGS |= {"allow_different_prompts", "allow_missing"}
OF_TABLE = {"positive", "score", "baseline", "paired", "advantaged", "intersections", "cluster"}
OF_TABLE |= {"strata", "feature", "four_fifths", "level", "seed", "everything"}
TECHNIQUES = {"techniques", "level"}
RUN = ("config.yaml", "examples.parquet")  # a log has no such files beside it

# An entry a kind; the first that reads an option is named first where it is refused.
KINDS: tuple[ComparisonKind, ...] = (
    ComparisonKind(
        "evaluation logs or tables, one a model",
        lambda options: (
            bool(options.paths) and not _is_table(options) and not _holds_audits(options)
        ),
        frozenset(COLUMNS | GROUPS | VERDICT | OF_LOGS),
        _logs,
    ),
    ComparisonKind(
        "logs whose attributes are listed",
        lambda options: options.listed and bool(options.paths),
        frozenset(COLUMNS | {"listed"}),
        _listing,
        says="listed",
    ),
    ComparisonKind(
        "detections beside their ground truth",
        lambda options: bool(options.truth) and bool(options.paths),
        frozenset(GROUPS | VERDICT | {"truth", "iou", "min_score"}),
        _boxes,
        says="truth",
    ),
    ComparisonKind(
        "one table of predictions",
        _is_table,
        frozenset(COLUMNS | GROUPS | OF_TABLE),
        _table,
    ),
    ComparisonKind(
        "two finished audits",
        lambda options: len(options.paths) == 2 and _holds_audits(options),
        frozenset(),
        _audits,
    ),
    ComparisonKind(
        "tables of training runs",
        lambda options: (
            options.techniques
            and bool(options.paths)
            and not options.raw
            and not _names_configuration(options)
            and not _holds_audits(options)
        ),
        frozenset(TECHNIQUES | {"base", "protocol"}),
        _runs,
        says="techniques",
    ),
    ComparisonKind(
        "values of bias and accuracy",
        lambda options: options.raw and bool(options.paths),
        frozenset(TECHNIQUES | {"raw", "base", "protocol", "paired"}),
        _raw_runs,
        says="raw",
    ),
    ComparisonKind(
        "finished audits of techniques",
        lambda options: options.techniques and not options.raw and _holds_audits(options),
        frozenset(TECHNIQUES | {"base", "protocol", "paired", "group", "predicted"}),
        _techniques,
        says="techniques",
    ),
    ComparisonKind(
        "a configuration of techniques",
        lambda options: options.techniques and not options.raw and _names_configuration(options),
        frozenset(TECHNIQUES | {"protocol", "paired", "group", "predicted", "out"}),
        _trained,
        says="techniques",
    ),
    ComparisonKind(
        "metrics to explain",
        lambda options: options.explain,
        frozenset({"explain"}),
        _metrics,
        says="explain",
    ),
)
