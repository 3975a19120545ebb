"""The audit in MLflow: one flat run a variant, one run a member, written when all is on disk."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import os
import re
import shlex
import sqlite3
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from scotoma._version import __version__
from scotoma.errors import ConfigError, ScotomaError
from scotoma.extras import needs
from scotoma.runs import Run, read_json, redact
from scotoma.summary import printable

__all__ = ["Tracked", "log_audit", "metric_names", "tracking_uri"]

NAME_LENGTH = 100  # the server takes 250, with section and prefix
TEXT_LENGTH = 5000  # of a tag; the server takes 8000
ARTIFACTS = ("report.html", "audit.json", "config.yaml")

# Forced: no call home, nothing on the terminal.
SILENCE = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
# Unless set: MLflow's own are 7 retries of 120 s, minutes of silence before a dead server.
PATIENCE = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}


@dataclass(frozen=True)
class Tracked:
    """What MLflow now holds.

    Attributes:
        experiment: Name of the experiment with one run a variant.
        models_experiment: Name of the experiment with one run a member.
        runs: Variant to run id.
        link: Where to look: an address, or the command that serves a local store.
        reason: Why not everything was logged, as a sentence without credentials; empty if it was.
    """

    experiment: str
    models_experiment: str
    runs: dict[str, str]
    link: str
    reason: str = ""


@dataclass
class _Record:
    """What one MLflow run holds; `identity` names the tags that say which one it is."""

    name: str
    identity: tuple[str, ...]
    tags: dict[str, str]
    params: dict[str, Any]
    metrics: list[tuple[str, float, int]] = field(default_factory=list)  # name, value, step
    artifacts: list[Path] = field(default_factory=list)
    examples: dict[str, int] = field(default_factory=dict)  # of each split

    @property
    def key(self) -> tuple[str | None, ...]:
        return _key(self.identity, self.tags)

    def number(self, name: str, value: Any, reason: str = "") -> bool:
        """A metric; where there is no finite number, a tag that says why."""
        if _finite(value):
            self.metrics.append((name, float(value), 0))
            return True
        self.tags[f"undefined/{name}"] = reason or f"undefined ({value})"
        return False

    def estimate(self, name: str, found: Mapping[str, Any]) -> None:
        """An estimate: its value a metric, its interval a tag."""
        if self.number(name, found["value"], found["reason"]):
            low, high, rests = found["low"], found["high"], f"n={found['n']}"
            self.tags[f"interval/{name}"] = (
                f"none, {rests}: {found['reason']}"
                if low is None or high is None
                else f"[{float(low):.6g}, {float(high):.6g}] {rests}"
            )


def _key(identity: tuple[str, ...], tags: Mapping[str, str]) -> tuple[str | None, ...]:
    return tuple(tags.get(name) for name in identity)


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def tracking_uri(run: Run, environment: Mapping[str, str]) -> str | None:
    """Where to log: SCOTOMA_TRACKING_URI, the configuration, MLFLOW_TRACKING_URI, a file.

    Args:
        run: Its configuration may name a server. A URI with the mark of a redacted credential is
            not usable, and passed over.
        environment: Environment variables.

    Returns:
        An MLflow tracking URI; without any, that of `mlflow.db` in the folder that holds the run,
        so that the runs of one project meet there; None for `off`.

    >>> from scotoma.config import default_config
    >>> run = Run(Path("/runs/first"), default_config())
    >>> tracking_uri(run, {}), tracking_uri(run, {"SCOTOMA_TRACKING_URI": "off"})
    ('sqlite:////runs/mlflow.db', None)
    """
    configured = run.config.tracking.uri or ""
    candidates = (
        environment.get("SCOTOMA_TRACKING_URI"),
        "" if "***" in configured else configured,
        environment.get("MLFLOW_TRACKING_URI"),
        f"sqlite:///{run.root.resolve().parent / 'mlflow.db'}",
    )
    chosen = next(uri for uri in candidates if uri)
    return None if chosen == "off" else chosen


def log_audit(run: Run, audit: dict[str, Any], uri: str) -> Tracked:
    """Log a finished audit.

    Experiment PROJECT gets one flat run a variant, dense last so that it is listed first;
    experiment PROJECT.models one run a member. A run is known by the digest of the configuration
    and by what was measured (a member: by its weights). One that is there and finished stays, one
    that an interrupted call left is replaced, so that the call can be repeated; another result of
    the same configuration is logged beside the first, never over it.

    Args:
        run: Folder with the manifests of its populations, and the files to attach.
        audit: Content of audit.json.
        uri: MLflow tracking URI; a sqlite file keeps artifacts in `mlartifacts` beside it.

    Returns:
        Where the runs are. A server that is down, a full disk or an absent mlflow is no error: the
        audit is on disk, and `reason` says what kept it from being logged.
    """
    experiment, models = audit["project"], f"{audit['project']}.models"
    variants = [_variant(run, audit, name) for name in reversed(_variant_names(audit))]
    members = [record for name in _variant_names(audit) for record in _members(run, audit, name)]
    runs: dict[str, str] = {}
    link, logged, reason = "", 0, ""
    try:
        with _quiet():
            mlflow = needs("mlflow", "tracking", "tracking")
            _prepare_store(uri)
            client = mlflow.MlflowClient(tracking_uri=uri)
            writer = _Writer(mlflow, client, uri, audit)
            home = writer.experiment(experiment)
            for record, run_id in writer.log(home, variants):
                runs[record.name] = run_id
                logged += 1
            for _ in writer.log(writer.experiment(models), members):
                logged += 1
            link = _link(uri, home, variants[0].tags["scotoma.result"])
    except ScotomaError as error:
        reason = str(error)
    except Exception as error:
        total = len(variants) + len(members)
        reason = (
            f"{_failure(error, uri)}; {logged} of {total} runs were logged, the audit itself is "
            "complete: repeat the command to log it"
        )
    return Tracked(experiment, models, runs, link, reason)


def metric_names(keys: Iterable[str]) -> dict[str, str]:
    """Names that MLflow takes as the last part of a metric's, one a key, no two the same.

    Plain keys stay readable. Where characters had to go, a name is too long, or two differ in case
    only (which some databases do not see), a digest of the key is appended.

    Args:
        keys: Group keys or attribute names, any text.

    Returns:
        Key to name, of characters in [A-Za-z0-9_.-].

    >>> metric_names(["sex.male", "sex.male & age.old"])
    {'sex.male': 'sex.male', 'sex.male & age.old': 'sex.male_and_age.old'}
    >>> list(metric_names(["sex.male/old", "sex.male?old"]).values())
    ['sex.male_old.0df1d1f1247e', 'sex.male_old.e2ffb95120fe']
    """
    readable = {key: "_and_".join(key.split(" & ")) for key in dict.fromkeys(keys)}
    seen = Counter(name.casefold() for name in readable.values())
    return {
        key: name
        if seen[name.casefold()] == 1
        and len(name) <= NAME_LENGTH
        and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name)
        and not re.search(r"\.[0-9a-f]{12}$", name)
        else _digested(key, name)
        for key, name in readable.items()
    }


def _digested(key: str, name: str) -> str:
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[: NAME_LENGTH - 20].strip("._-")
    return f"{stem or 'group'}.{_sha256(key)[:12]}"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _variant_names(audit: Mapping[str, Any]) -> list[str]:
    """Dense first, then in the order of the audit."""
    return [v["name"] for v in sorted(audit["variants"], key=lambda v: v["kind"] != "dense")]


def _facts(run: Run, audit: Mapping[str, Any], name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Parameters and tags that a variant shares with its members; numbers stay comparable."""
    variant = next(found for found in audit["variants"] if found["name"] == name)
    recipe = run.config.source.recipe.model_dump(mode="json")
    params = {
        "sparsity": variant["sparsity"],
        "bits": variant["bits"],
        "kind": variant["kind"],
        **{f"recipe.{key}": value for key, value in recipe.items()},
    }
    tags = {
        "scotoma.audit": audit["config_sha256"],
        "scotoma.variant": name,
        "scotoma.version": __version__,
        "scotoma.dataset": audit["examples"]["dataset_sha256"],
        "mlflow.source.name": "scotoma",
        "mlflow.source.type": "LOCAL",
    }
    return params, tags


def _variant(run: Run, audit: Mapping[str, Any], name: str) -> _Record:
    """Everything that the run of a variant holds."""
    params, tags = _facts(run, audit, name)
    variant = next(found for found in audit["variants"] if found["name"] == name)
    record = _Record(
        name=name,
        identity=("scotoma.variant", "scotoma.result"),
        tags=tags | {"scotoma.result": _sha256(json.dumps(audit, sort_keys=True))},
        params=params
        | {
            "n_models": variant["members"],
            "seed": audit["seed"],
            "paired": str(variant["paired"]).lower(),
        },
        artifacts=[path for path in map(run.path, ARTIFACTS) if path.exists()],
        examples={split: audit["examples"][split] for split in ("train", "test")},
    )
    top1 = audit["accuracy"][name]["top1"]
    record.estimate("1_quality/top1", top1)
    note = [f"**{_markdown(name)}**: {variant['members']} models", ""]
    note.append(f"- top-1 {_shown(top1, 100, '%')}")
    if divergence := audit["divergence"].get(name):
        cie = divergence["cie"]
        count = cie["cie"]
        record.estimate("2_cie/share", cie["cie_share"])
        record.estimate("2_cie/excess", cie["excess"])
        record.number("2_cie/count", count["count"])
        record.tags["interval/2_cie/count"] = (
            f"[{count['low']}, {count['high']}] n={cie['n']}: the range over {count['ties']} ties"
        )
        note.append(
            f"- CIEs: {count['count']:,} of {cie['n']:,} examples, "
            f"{_shown(cie['excess'], 100, ' points')} beyond the floor"
        )
        note += _groups(record, audit, name, run.config.label.positive)
    record.tags["mlflow.note.content"] = "\n".join(note)
    return record


def _groups(
    record: _Record, audit: Mapping[str, Any], name: str, positive: str | int | None
) -> list[str]:
    """Put changes and gaps of groups into the record; returns what its note says of them."""
    rows: dict[tuple[str, str], Mapping[str, Any]] = {}
    for row in audit["subgroups"].get(name, []):
        if row["class"] is None or (positive is not None and row["class"] == str(positive)):
            rows.setdefault((row["metric"], row["group"]), row["relative"])
    # Named over all variants: the same group has the same name in every run.
    names = metric_names(r["group"] for found in audit["subgroups"].values() for r in found)
    for (metric, group), change in rows.items():
        record.estimate(f"amp_{metric}/{names[group]}", change)
    record.tags |= {f"group/{short}": key for key, short in names.items() if short != key}
    note = []
    for metric in dict.fromkeys(metric for metric, _ in rows):
        worst, lacking = f"3_worst/{metric}", "undefined (no group has a defined change)"
        defined = {
            group: change
            for (kind, group), change in rows.items()
            if kind == metric and group != "all" and _finite(change["value"])
        }
        if not defined:
            record.number(worst, None, lacking)
            continue
        group = max(defined, key=lambda group: float(defined[group]["value"]))
        record.estimate(worst, defined[group])
        record.tags[f"group/{worst}"] = group
        note.append(
            f"- largest change of {metric}: {_shown(defined[group], 1, '%')} in {_markdown(group)}"
        )
    _gaps(record, audit["gaps"].get(name, []))
    return note


def _gaps(record: _Record, rows: Iterable[Mapping[str, Any]]) -> None:
    """One contrast an attribute of two values; each value against the rest where there are more."""
    rows = list(rows)
    contrasts = Counter((row["attribute"], row["metric"]) for row in rows)
    keys = []
    for row in rows:
        attribute, group = row["attribute"], row["group_b"]
        if contrasts[attribute, row["metric"]] == 1:
            keys.append(attribute)
        else:  # an attribute may be called as another's group is
            keys.append(f"{attribute} = {group}" if (group, row["metric"]) in contrasts else group)
    names = metric_names(keys)
    for row, key in zip(rows, keys, strict=True):
        section = "gap" if row["metric"] == "error" else f"gap_{row['metric']}"
        name = f"{section}/{names[key]}"
        record.estimate(name, row["gap"])
        record.tags[f"group/{name}"] = f"{row['group_b']} against {row['group_a']}"


def _members(run: Run, audit: Mapping[str, Any], name: str) -> list[_Record]:
    """Everything that the runs of a variant's members hold."""
    manifest = read_json(run.population(name) / "manifest.json")
    scores = audit["accuracy"][name]["members"]
    records = []
    for member, top1 in zip(manifest["members"], scores, strict=True):
        params, tags = _facts(run, audit, name)
        recipe = member.get("recipe", {})
        record = _Record(
            name=f"{name}-{member['index']:03d}",
            identity=("scotoma.variant", "scotoma.member", "scotoma.weights"),
            tags=tags
            | {"scotoma.member": str(member["index"]), "scotoma.weights": member["sha256"]},
            params=params
            | {"seed": member["seed"]}
            | {f"recipe.{key}": value for key, value in recipe.items()},
        )
        if "paired_with" in member:
            record.tags["scotoma.paired_with"] = member["paired_with"]["sha256"]
        record.number("top1", top1)
        # A point of the curve is the mean over a tenth of the steps, up to the step it stands at.
        tenth = max(1, int(params["recipe.steps"]) // 10)
        for point, loss in enumerate(member.get("loss", []), start=1):
            if _finite(loss):
                record.metrics.append(("loss", loss, point * tenth))
        records.append(record)
    return records


class _Writer:
    """Records into MLflow with as few requests as it takes."""

    def __init__(self, mlflow: Any, client: Any, uri: str, audit: Mapping[str, Any]) -> None:
        self.entities, self.client, self.uri, self.audit = mlflow.entities, client, uri, audit
        self.exception = mlflow.exceptions.MlflowException

    def experiment(self, name: str) -> str:
        """The id of an experiment, made where there is none."""
        found = self.client.get_experiment_by_name(name)
        if found is None:
            database = _database(self.uri)
            location = database and (database.parent / "mlartifacts" / name).as_uri()
            try:
                return str(self.client.create_experiment(name, artifact_location=location))
            except self.exception as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
                found = self.client.get_experiment_by_name(name)
        if found.lifecycle_stage != "active":
            raise ConfigError(
                f"MLflow experiment {name} was deleted; restore it, or change `project`"
            )
        return str(found.experiment_id)

    def log(self, experiment_id: str, records: list[_Record]) -> Iterator[tuple[_Record, str]]:
        """Log what is not there yet; yields each record with the id of its run."""
        wanted = {record.key for record in records}
        present: dict[tuple[str | None, ...], str] = {}
        for run in list(self._found(experiment_id)):
            key = _key(records[0].identity, run.data.tags)
            if run.info.status == "FINISHED":
                present[key] = run.info.run_id
            elif key in wanted:
                self.client.delete_run(run.info.run_id)
        for record in records:
            yield record, present.get(record.key) or self._write(experiment_id, record)

    def _found(self, experiment_id: str) -> Iterator[Any]:
        """The runs of this configuration."""
        query, token = f"tags.`scotoma.audit` = '{self.audit['config_sha256']}'", None
        while True:
            page = self.client.search_runs([experiment_id], query, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def _write(self, experiment_id: str, record: _Record) -> str:
        tags = {key: _text(key, value) for key, value in record.tags.items()}
        run = self.client.create_run(experiment_id, tags=tags, run_name=record.name)
        run_id: str = run.info.run_id
        now = int(time.time() * 1000)
        metrics = [
            self.entities.Metric(name, value, now, step) for name, value, step in record.metrics
        ]
        params = [self.entities.Param(key, str(value)) for key, value in record.params.items()]
        self.client.log_batch(run_id, metrics, params)
        if record.examples:
            self.client.log_inputs(run_id, self._datasets(record.examples))
        for path in record.artifacts:
            self.client.log_artifact(run_id, str(path))
        self.client.set_terminated(run_id)
        return run_id

    def _datasets(self, examples: Mapping[str, int]) -> list[Any]:
        digest = self.audit["examples"]["dataset_sha256"]
        return [
            self.entities.DatasetInput(
                self.entities.Dataset(
                    name=f"{self.audit['project']} {split}",
                    digest=digest[:32],  # 36 is the most that MLflow takes; `source` has it whole
                    source_type="scotoma",
                    source=json.dumps({"dataset_sha256": digest, "split": split}),
                    profile=json.dumps({"num_rows": rows}),
                ),
                [self.entities.InputTag("mlflow.data.context", split)],
            )
            for split, rows in examples.items()
        ]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep MLflow from the terminal, from its makers, and from waiting long."""
    wanted = {**{k: v for k, v in PATIENCE.items() if k not in os.environ}, **SILENCE}
    before = {name: os.environ.get(name) for name in wanted}
    disabled = logging.root.manager.disable
    os.environ.update(wanted)
    # By level and for all: alembic's migrations configure their loggers anew. What goes wrong
    # arrives as an exception.
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _database(uri: str) -> Path | None:
    return Path(uri.removeprefix("sqlite:///")).absolute() if uri.startswith("sqlite:///") else None


def _prepare_store(uri: str) -> None:
    """Switch a sqlite file to a write-ahead log: 25 to 42 ms a run."""
    if (database := _database(uri)) is None:
        return
    if bad := set("?%") & set(uri):
        raise ConfigError(
            f"tracking URI {uri} has {' and '.join(sorted(bad))} in the path, which a database URI "
            "cannot; choose another --out, or set tracking.uri"
        )
    database.parent.mkdir(parents=True, exist_ok=True)
    # Only speed is lost where the file is busy or its file system has no shared memory.
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(database)) as file:
        file.execute("PRAGMA journal_mode=WAL")


def _link(uri: str, experiment_id: str, result: str) -> str:
    """The comparison of this audit's variants, as an address or as the command that serves it."""
    if not uri.startswith(("http://", "https://")):
        return f"mlflow ui --backend-store-uri {shlex.quote(redact(uri))}"
    parts = urlsplit(uri)
    base = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
    # Without order and start time MLflow drops the filter.
    query = {
        "searchFilter": f"tags.`scotoma.result` = '{result}'",
        "orderByKey": "attributes.start_time",
        "orderByAsc": "false",
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "compareRunsMode": "CHART",
    }
    path = f"#/experiments/{experiment_id}/runs?{urlencode(query, quote_via=quote)}"
    return f"{base.geturl().rstrip('/')}/{path}"


def _failure(error: BaseException, uri: str) -> str:
    """What went wrong, in words that hold no credentials."""
    chain = [error]
    while (below := chain[-1].__cause__ or chain[-1].__context__) and below not in chain:
        chain.append(below)
    where = _without_secrets(uri)
    if any(type(e).__name__ in ("ConnectionError", "ConnectTimeout", "ReadTimeout") for e in chain):
        words = next((e.strerror for e in chain if isinstance(e, OSError) and e.strerror), "")
        return f"tracking server {where} does not answer ({words or type(chain[-1]).__name__})"
    words = _without_secrets(" ".join(str(error).replace(uri, where).split()))
    return f"MLflow at {where} failed ({type(error).__name__}: {words[:300].rstrip('.')})"


def _without_secrets(text: str) -> str:
    # Up to the last @: a password with a slash in it is one that a URI parser does not find.
    return re.sub(r"://\S*@", "://***@", redact(text))


def _text(key: str, value: str) -> str:
    """A tag's text: whatever could steer a terminal or break a database is a space."""
    lines = value.split("\n") if key == "mlflow.note.content" else [value]
    return "\n".join(map(printable, lines))[:TEXT_LENGTH]


def _markdown(text: str) -> str:
    """A name that is nothing but its letters in Markdown and HTML: the rest becomes entities."""
    return "".join(c if c.isalnum() or c in " -" else f"&#{ord(c)};" for c in printable(text))


def _shown(found: Mapping[str, Any], factor: float, unit: str) -> str:
    """An estimate in words."""
    value, low, high = found["value"], found["low"], found["high"]
    if not _finite(value):
        return _markdown(found["reason"] or "undefined")
    interval = (
        ""
        if low is None or high is None
        else f" [{factor * float(low):.1f}, {factor * float(high):.1f}]"
    )
    return f"{factor * value:.1f}{unit}{interval}"
