"""Which kind of comparison fits what `scotoma compare` is given, and who answers it?"""

from __future__ import annotations

from os.path import exists
from pkgutil import resolve_name
from typing import NamedTuple

from scotoma import storage
from scotoma.commands.asking import Answer, Options
from scotoma.commands.compare import CompareOptions
from scotoma.errors import ConfigError
from scotoma.printable import printable

RUN = ("config.yaml", "examples.parquet")  # a log has no such files beside it


class ComparisonKind(NamedTuple):
    """A kind of comparison.

    Attributes:
        called: What the paths are, in the plural.
        needs: Of the `facts` those that hold of it.
        excludes: And those that do not.
        reads: Fields of the options that it reads, apart from the forms of the answer.
        answers: The function that does, as `module:name`.
        says: Field of the option that asks for this kind where others fit too; empty for the usual
            kind of such paths.
    """

    called: str
    needs: set[str]
    excludes: set[str]
    reads: set[str]
    answers: str
    says: str = ""

    def answer(self, options: CompareOptions) -> Answer:
        """Compare."""
        answer: Answer = resolve_name(f"scotoma.{self.answers}")(options)
        return answer


def facts(options: CompareOptions) -> set[str]:
    """What holds of the paths, and of the options that say which kind they are."""
    from scotoma.readers.tables import sniff

    paths, techniques = options.paths, options.techniques
    one = paths[0] if len(paths) == 1 else ""
    holding = {
        "paths": bool(paths),
        "two paths": len(paths) == 2,
        # What is no table is refused by who reads it.
        "a table": bool(one) and (bool(options.predicted) or sniff(one) is not None),
        # A finished audit, or what says that it is: `TECHNIQUE=FOLDER`.
        "audits": any(
            (techniques and "=" in place)
            or all(storage.exists(storage.join(place, name)) for name in RUN)
            for place in paths
        ),
        "a configuration": one.lower().endswith((".yaml", ".yml")),
        "techniques": techniques,
        "raw": options.raw,
        "listed": options.listed,
        "truth": bool(options.truth),
        "so far": options.so_far,
        "explain": options.explain,
    }
    return {fact for fact, holds in holding.items() if holds}


def kind_of(options: CompareOptions) -> ComparisonKind:
    """The kind of comparison that is asked for.

    Raises:
        ConfigError: None fits, several do, or an option is of another kind.
    """
    forms = {*Options.model_fields, "paths"}
    given, written = [name for name in options.changed() if name not in forms], options.written
    holding = facts(options)
    fitting = [k for k in KINDS if k.needs <= holding and k.excludes.isdisjoint(holding)]
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
    if len(options.paths) == 1 and not (
        storage.is_remote(place := options.paths[0]) or exists(place)
    ):
        raise ConfigError(f"{printable(place)} does not exist: check the path")
    if not chosen:
        raise ConfigError(
            f"compare takes {'; '.join(kind.called for kind in KINDS)}, got "
            f"{', '.join(options.paths)}; name the original first, then the compressed"
        )
    (kind,) = chosen
    for name in given:
        if name in kind.reads:
            continue
        owners = [other for other in KINDS if name in other.reads]
        ways = " or ".join(
            written(other.says) for other in owners if other.says and other.says not in given
        )
        out = f"leave out {written(name)}"
        if kind.says in given:
            out += f" or {written(kind.says)}"
        elif ways:
            out += f", or add {ways}"
        raise ConfigError(
            f"{written(name)} does not go with {kind.called}"
            f"{f' ({written(kind.says)})' if kind.says in given else ''}; {out}"
        )
    return kind


def judge_one_table(options: CompareOptions) -> Answer:
    """Hold the predictions, or the scores, of one table against its labels."""
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


def explain_metrics(options: CompareOptions) -> Answer:
    """Say which question each metric answers."""
    from scotoma.bias.clarify.guide import guide_document

    return Answer(guide_document())


def compare_two_audits(options: CompareOptions) -> Answer:
    """Say what got better or worse from one audit to another."""
    from scotoma.predictions.finished import FinishedAudit
    from scotoma.run.finished import open_run
    from scotoma.verdict.two_audits import audit_difference

    first, second = (FinishedAudit(open_run(place)) for place in options.paths)
    return Answer(*audit_difference(first, second, options.paths))


COLUMNS = {"label", "predicted", "identifier"}
GROUPS = {"group", "examples"}
VERDICT = {"out", "gate", "rules", "margin", "as_of"}
OF_LOGS = {"score", "tasks", "right_from", "filter_", "reruns", "refusal", "tracking", "positive"}
OF_LOGS |= {"allow_different_prompts", "allow_missing", "pair_by", "across", "reference", "costs"}
AT_THE_END = {"refusal", "tracking", "positive", "allow_missing", "pair_by", "across", "reference"}
AT_THE_END |= {"costs"}
SO_FAR = {"so_far", "of", "watch", "gate", "margin"}
OF_TABLE = {"positive", "score", "baseline", "paired", "advantaged", "intersections", "cluster"}
OF_TABLE |= {"strata", "feature", "four_fifths", "level", "seed", "everything"}
TECHNIQUES = {"techniques", "level", "protocol"}
OF_AUDITS = TECHNIQUES | {"paired", "group", "predicted"}

# A row a kind; the first that reads an option is named first where it is refused.
KINDS = tuple(ComparisonKind(*row) for row in (
    ("evaluation logs or tables, one a model", {"paths"}, {"a table", "audits"},
     COLUMNS | GROUPS | VERDICT | OF_LOGS, "steps.compared:compare_logs"),
    ("logs whose attributes are listed", {"paths", "listed"}, set(),
     COLUMNS | {"listed"}, "steps.compared:list_logs", "listed"),
    ("logs of evaluations that go on", {"paths", "so far"}, {"a table", "audits"},
     COLUMNS | GROUPS | SO_FAR | OF_LOGS - AT_THE_END,
     "steps.so_far:compare_so_far", "so_far"),
    ("detections beside their ground truth", {"paths", "truth"}, set(),
     GROUPS | VERDICT | {"truth", "iou", "min_score"}, "steps.compared:compare_boxes", "truth"),
    ("one table of predictions", {"a table"}, set(),
     COLUMNS | GROUPS | OF_TABLE, "commands.kinds:judge_one_table"),
    ("two finished audits", {"two paths", "audits"}, set(), set(),
     "commands.kinds:compare_two_audits"),
    ("tables of training runs", {"paths", "techniques"}, {"raw", "a configuration", "audits"},
     TECHNIQUES | {"base"}, "steps.techniques:compare_table_of_runs", "techniques"),
    ("values of bias and accuracy", {"paths", "raw"}, set(),
     TECHNIQUES | {"raw", "base", "paired"}, "steps.techniques:compare_raw_runs", "raw"),
    ("finished audits of techniques", {"techniques", "audits"}, {"raw"},
     OF_AUDITS | {"base"}, "steps.techniques:compare_audits_of_techniques", "techniques"),
    ("a configuration of techniques", {"techniques", "a configuration"}, {"raw"},
     OF_AUDITS | {"out"}, "steps.techniques:compare_trained", "techniques"),
    ("metrics to explain", {"explain"}, set(), {"explain"},
     "commands.kinds:explain_metrics", "explain"),
))  # fmt: skip
