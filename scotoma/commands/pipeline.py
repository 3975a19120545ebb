"""The pipeline commands: an audit to a cluster, and what becomes of it there."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from scotoma import storage
from scotoma.commands.audit import configuration
from scotoma.commands.gate import print_out
from scotoma.commands.pipeline_wait import finished, watch
from scotoma.config import Config, Kubeflow
from scotoma.config.gate import load_rules
from scotoma.errors import ConfigError
from scotoma.printable import printable

if TYPE_CHECKING:
    from scotoma.pipelines.cluster import Cluster
    from scotoma.pipelines.progress import Progress

__all__ = [
    "Reached", "Submission", "check_place", "run_compile", "run_logs", "run_retry", "run_status",
    "run_submit",
]  # fmt: skip


@dataclass(frozen=True)
class Reached:
    """Which Kubeflow, and how to talk about it.

    Attributes:
        endpoint: Its address; None for `kubeflow.endpoint` or KF_PIPELINES_ENDPOINT.
        namespace: Of a team; None for `kubeflow.namespace`.
        as_json: Print JSON.
        quiet: Write nothing to stderr.
    """

    endpoint: str | None
    namespace: str | None
    as_json: bool
    quiet: bool

    def cluster(self, settings: Kubeflow) -> Cluster:
        """A client; nothing is asked yet."""
        from scotoma.pipelines.cluster import Cluster

        return Cluster(settings, self.endpoint, self.namespace)

    @property
    def console(self) -> Console:
        """Where progress and messages go."""
        return Console(stderr=True, quiet=self.quiet)


@dataclass(frozen=True)
class Submission:
    """An audit as it is to be sent.

    Attributes:
        path: Configuration.
        rules: Gate file; None for the default rules.
        seed: Overrides `population.seed`.
        data: Overrides `source.data`.
        deterministic: Overrides `deterministic` with True.
    """

    path: Path
    rules: Path | None = None
    seed: int | None = None
    data: str | None = None
    deterministic: bool = False

    def read(self) -> tuple[Config, Kubeflow]:
        """The configuration and the cluster that it names, or one with nothing special."""
        config = configuration(
            self.path, deterministic=self.deterministic, seed=self.seed, data=self.data
        )
        return config, config.kubeflow or Kubeflow()

    def compile(
        self, config: Config, kubeflow: Kubeflow, path: Path, *, scheduled: bool = False
    ) -> None:
        """Write the pipeline, with configuration and gate file in it."""
        from scotoma.pipelines.audit import compile_pipeline

        rules = ""
        if self.rules is not None:
            load_rules(self.rules)  # refused here and not in a pod
            rules = self.rules.read_text(encoding="utf-8")
        compile_pipeline(config, path, kubeflow=kubeflow, rules=rules, scheduled=scheduled)


def run_compile(asked: Submission, out: Path, *, quiet: bool) -> None:
    """Write the pipeline as the YAML that Kubeflow runs.

    Raises:
        ConfigError: The configuration names what a cluster cannot have, or `out` is no YAML.
    """
    if out.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"--out must be a .yaml file, got {out}; KFP goes by the suffix")
    config, kubeflow = asked.read()
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "pipeline.yaml")
        asked.compile(config, kubeflow, made)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(made.read_bytes())
    Console(stderr=True, quiet=quiet).print(
        f"written {out}; its parameter run_uri is where the audit keeps its files", markup=False
    )


def run_submit(
    asked: Submission, run_uri: str, reached: Reached, *, experiment: str | None, wait: bool
) -> int:
    """Send an audit to a cluster.

    Args:
        asked: The audit.
        run_uri: `s3://BUCKET/PREFIX`, or a folder below `kubeflow.volume.mount`.
        reached: The cluster.
        experiment: Of KFP; None for `kubeflow.experiment` or the project.
        wait: Whether to show its steps until it has ended.

    Returns:
        0; having waited, what `scotoma gate` would end with.

    Raises:
        ConfigError: The cluster cannot have what is asked for, or refuses it.
        ScotomaError: It does not answer; having waited, the audit failed.
    """
    config, kubeflow = asked.read()
    check_place(run_uri, kubeflow, wait=wait)
    cluster = reached.cluster(kubeflow)
    with tempfile.TemporaryDirectory() as folder:
        definition = Path(folder, "pipeline.yaml")
        asked.compile(config, kubeflow, definition)
        name = experiment or kubeflow.experiment or config.project
        made = cluster.submit(definition, run_uri, config.project, name)
    reached.console.print(f"sent    {_link(cluster, made.run_id)}", markup=False, soft_wrap=True)
    if wait:
        return _end(cluster, made.run_id, reached)
    print_out(_text(made, cluster) if reached.as_json else f"{made.run_id}\n", sys.stdout)
    return 0


def run_status(run_id: str, reached: Reached, *, wait: bool) -> int:
    """Show how far a run is; with `wait` as of `run_submit`."""
    cluster = reached.cluster(Kubeflow())
    if wait:
        return _end(cluster, run_id, reached)
    found = cluster.progress(run_id)
    print_out(_text(found, cluster) if reached.as_json else _table(found), sys.stdout)
    return 0


def run_retry(run_id: str, reached: Reached, *, wait: bool) -> int:
    """Let a run that failed go on; with `wait` as of `run_submit`."""
    cluster = reached.cluster(Kubeflow())
    cluster.retry(run_id)
    if wait:
        return _end(cluster, run_id, reached)
    found = cluster.progress(run_id)
    print_out(_text(found, cluster) if reached.as_json else f"{run_id}\n", sys.stdout)
    return 0


def run_logs(run_id: str, step: str | None, reached: Reached) -> None:
    """Print what steps have written: those of one name, else those that failed.

    Raises:
        ConfigError: No step has that name, or none has failed.
    """
    cluster = reached.cluster(Kubeflow())
    tasks = cluster.progress(run_id).tasks
    chosen = [t for t in tasks if t.pod and (t.name == step if step else t.state == "FAILED")]
    if not chosen:
        known = ", ".join(dict.fromkeys(task.name for task in tasks if task.pod)) or "none"
        raise ConfigError(
            f"no step with a log is called {step!r}; there are {known}"
            if step
            else f"no step has failed, so name one with --step; there are {known}"
        )
    found = [{"step": one.name, "pod": one.pod, "log": cluster.logs(run_id, one.pod)}
             for one in chosen]  # fmt: skip
    if reached.as_json:
        print_out(json.dumps(found, indent=1) + "\n", sys.stdout)
        return
    for one in found:
        lines = [f"{one['step']}: {printable(line)}\n" for line in one["log"].splitlines()]
        print_out("".join(lines), sys.stdout)


def check_place(run_uri: str, kubeflow: Kubeflow, *, wait: bool) -> None:
    """Refuse a place that the steps, or this command in the end, could not reach."""
    if storage.is_remote(run_uri):
        storage.split_uri(run_uri)
        return
    mount = kubeflow.volume.mount if kubeflow.volume else None
    if mount is None or not Path(run_uri).is_relative_to(mount):
        raise ConfigError(
            f"--out {run_uri} is no place that the steps on a cluster share; give "
            "s3://BUCKET/PREFIX, or a folder below kubeflow.volume.mount"
        )
    if wait:
        raise ConfigError(
            f"--wait reads the verdict where the run is, and {run_uri} is a volume of the cluster; "
            "leave out --wait, or give s3://BUCKET/PREFIX"
        )


def _end(cluster: Cluster, run_id: str, reached: Reached) -> int:
    """Show the steps until the run has ended, then its verdict."""
    code, text = finished(watch(cluster, run_id, reached.console), as_json=reached.as_json)
    print_out(text, sys.stdout)
    return code


def _link(cluster: Cluster, run_id: str) -> str:
    return f"{cluster.endpoint}/#/runs/details/{run_id}"


def _text(found: Progress, cluster: Cluster) -> str:
    return json.dumps(asdict(found) | {"link": _link(cluster, found.run_id)}, indent=1) + "\n"


def _table(found: Progress) -> str:
    """One line for the run and one a step."""
    lines = [f"{found.state:<12}{printable(found.name)}  {found.run_uri}"]
    for task in found.tasks:
        spent = "" if task.seconds is None else f"{task.seconds:.0f} s"
        lines.append(
            f"{task.state:<12}{printable(task.name):<24}{spent:>8}  {printable(task.error)}"
        )
    return "".join(f"{line.rstrip()}\n" for line in lines)
