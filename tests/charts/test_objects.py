"""What the chart makes of each file of values: valid, closed, and nothing that points nowhere."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from scotoma._version import __version__
from scotoma.config import parse_config
from scotoma.config.gate import parse_rules
from tests.charts.conftest import CHART, VALUES, Objects
from tests.charts.restricted import broken_rules

Rendered = tuple[dict[str, Any], Objects]
KUBERNETES = ("1.27", "1.37")  # the oldest that Chart.yaml admits, and the newest known
WORKLOADS = ("Deployment", "Job")


def of_kind(objects: Objects, *kinds: str) -> Objects:
    return [found for found in objects if found["kind"] in kinds]


def pods(objects: Objects) -> Objects:
    """Pods and the templates of pods, each with `metadata` and `spec`."""
    templates = [found["spec"]["template"] for found in of_kind(objects, *WORKLOADS)]
    return [*of_kind(objects, "Pod"), *templates]


def containers(pod: dict[str, Any]) -> Objects:
    return [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]


def server(objects: Objects) -> dict[str, Any]:
    (deployment,) = of_kind(objects, "Deployment")
    pod: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return pod


# --- as Kubernetes and helm want them -------------------------------------------------------------


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_lint_has_nothing_to_say(helm: Path, values: Path) -> None:
    done = subprocess.run(
        [helm, "lint", "--strict", "--quiet", "--namespace", "mlops", "--values", values, CHART],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stdout


def test_every_object_is_what_the_api_takes(rendered: Rendered) -> None:
    for version, found in product(KUBERNETES, rendered[1]):
        kubernetes_validate.validate(found, version, strict=True)


def test_every_object_has_a_name_of_its_own_and_a_namespace(rendered: Rendered) -> None:
    names = [(one["kind"], one["metadata"]["namespace"], one["metadata"]["name"])
             for one in rendered[1]]  # fmt: skip
    assert len(set(names)) == len(names)
    assert max(len(name) for _, _, name in names) <= 63


@pytest.mark.parametrize("release", ["r" * 53, "scotoma" + "r" * 46])
def test_long_names_of_releases_and_schedules_are_cut(release: str, helm: Path) -> None:
    values = 'kubeflow: {endpoint: "http://k"}\nschedules: {%s: {out: s3://a/b, config: "%s"}}'
    config = "retraining: {cron: '0 0 3 1 * *'}"
    done = subprocess.run(
        [helm, "template", release, CHART, "--values", "-"],
        input=values % ("s" * 30, config), capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = [one["metadata"]["name"] for one in yaml.safe_load_all(done.stdout) if one]
    assert max(map(len, names)) <= 63
    assert len(set(names)) > 5


def test_the_chart_has_the_version_of_the_package() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert about["appVersion"] == __version__


# --- closed ---------------------------------------------------------------------------------------


def test_every_pod_keeps_the_restricted_standard(rendered: Rendered) -> None:
    assert pods(rendered[1])
    for pod in pods(rendered[1]):
        assert broken_rules(pod) == [], pod["metadata"]


def test_every_pod_is_read_only_without_token_and_neighbours(rendered: Rendered) -> None:
    for pod in pods(rendered[1]):
        assert pod["spec"]["automountServiceAccountToken"] is False
        # A service called mlflow would set MLFLOW_PORT.
        assert pod["spec"]["enableServiceLinks"] is False
        for container in containers(pod):
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert "/tmp" in [mount["mountPath"] for mount in container["volumeMounts"]]
            for kind in ("requests", "limits"):
                assert {"cpu", "memory"} <= container["resources"][kind].keys()


def test_rights_are_named_and_only_those_of_schedules(rendered: Rendered) -> None:
    kinds = {found["kind"] for found in rendered[1]}
    assert not kinds & {"ClusterRole", "ClusterRoleBinding"}
    accounts = [one["metadata"]["name"] for one in of_kind(rendered[1], "ServiceAccount")]
    for role in of_kind(rendered[1], "Role"):
        for rule in role["rules"]:
            assert rule["apiGroups"] == ["pipelines.kubeflow.org"]
            assert "*" not in rule["resources"] + rule["verbs"]
            assert ("delete" in rule["verbs"]) == (rule["resources"] == ["jobs"])
    for binding in of_kind(rendered[1], "RoleBinding"):
        (subject,) = binding["subjects"]
        assert subject["name"] in accounts
        assert subject["name"].endswith("-schedules")
        roles = [(one["metadata"]["namespace"], one["metadata"]["name"])
                 for one in of_kind(rendered[1], "Role")]  # fmt: skip
        assert (binding["metadata"]["namespace"], binding["roleRef"]["name"]) in roles


def test_policies_let_in_and_out_what_the_values_name(render: Callable[..., Objects]) -> None:
    def policies(file: str) -> dict[str, dict[str, Any]]:
        objects = render((CHART / "ci" / file).read_text())
        return {one["metadata"]["name"].rpartition("-")[2]: one["spec"]
                for one in of_kind(objects, "NetworkPolicy")}  # fmt: skip

    def ports(policy: dict[str, Any]) -> set[tuple[str, int]]:
        return {(p["protocol"], p["port"]) for rule in policy["egress"] for p in rule["ports"]}

    def namespaces(policy: dict[str, Any]) -> set[str]:
        (rule,) = policy["ingress"]
        return {one["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
                for one in rule["from"] if "namespaceSelector" in one}  # fmt: skip

    names = {("UDP", 53), ("TCP", 53)}
    assert policies("default.yaml")["mlflow"]["egress"] == []
    assert ports(policies("team.yaml")["mlflow"]) == names | {("TCP", 5432), ("TCP", 443)}
    assert ports(policies("minio.yaml")["mlflow"]) == names | {("TCP", 9000), ("TCP", 15012)}
    assert ports(policies("shared-volume.yaml")["mlflow"]) == names | {("TCP", 6432)}
    bucket = {("TCP", 9000)}  # from which a source is read
    made = ports(policies("schedules.yaml")["schedules"])
    assert made == names | bucket | {("TCP", 443), ("TCP", 8443)}
    only = policies("schedules-only.yaml")["schedules"]
    assert ports(only) == names | {("TCP", 80), ("TCP", 3000), ("TCP", 8888)}
    assert only["ingress"] == []
    assert namespaces(policies("default.yaml")["mlflow"]) == set()
    assert namespaces(policies("team.yaml")["mlflow"]) == {"notebooks", "ingress-nginx"}
    assert namespaces(policies("schedules.yaml")["mlflow"]) == {"team"}
    assert policies("open.yaml") == {}


# --- what points at something ---------------------------------------------------------------------


def selectors(objects: Objects) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Kind, namespace and labels of everything that looks for pods."""
    for found in objects:
        kind, spec, space = found["kind"], found.get("spec", {}), found["metadata"]["namespace"]
        if kind == "Service":
            yield kind, space, spec["selector"]
        if kind in ("Deployment", "PodDisruptionBudget"):
            yield kind, space, spec["selector"]["matchLabels"]
        if kind == "NetworkPolicy":
            yield kind, space, spec["podSelector"]["matchLabels"]
        for spread in spec.get("template", {}).get("spec", {}).get("topologySpreadConstraints", []):
            yield "spread", space, spread["labelSelector"]["matchLabels"]


def test_every_selector_finds_pods_of_one_component(rendered: Rendered) -> None:
    component = "app.kubernetes.io/component"
    for kind, namespace, wanted in selectors(rendered[1]):
        assert namespace == "mlops"
        labels = [pod["metadata"]["labels"] for pod in pods(rendered[1])]
        found = [one for one in labels if wanted.items() <= one.items()]
        assert found, (kind, wanted)
        assert {one[component] for one in found} == {wanted[component]}, kind


def test_every_port_that_is_named_is_there(rendered: Rendered) -> None:
    objects = rendered[1]
    for service in of_kind(objects, "Service"):
        (container,) = server(objects)["containers"]
        names = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert [names[port["targetPort"]] for port in service["spec"]["ports"]] == [5000]
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert container[probe]["httpGet"] == {"path": "/health", "port": "http"}
        for policy in of_kind(objects, "NetworkPolicy"):
            if policy["metadata"]["name"].endswith("-mlflow"):
                (rule,) = policy["spec"]["ingress"]
                assert rule["ports"] == [{"protocol": "TCP", "port": "http"}]
    for ingress in of_kind(objects, "Ingress"):
        (path,) = ingress["spec"]["rules"][0]["http"]["paths"]
        target = path["backend"]["service"]
        (service,) = (one for one in of_kind(objects, "Service")
                      if one["metadata"]["name"] == target["name"])  # fmt: skip
        assert target["port"]["name"] in [port["name"] for port in service["spec"]["ports"]]


def names_in(values: Any) -> set[str]:
    """Every text in values, and every key, such as the name of a schedule's secret."""
    if isinstance(values, dict):
        return set(values).union(*map(names_in, values.values()))
    if isinstance(values, list):
        return set().union(*map(names_in, values), set())
    return {values} if isinstance(values, str) else set()


def wanted_by(pod: dict[str, Any]) -> Iterator[tuple[str, str, str | None]]:
    """Kind, name and, of a secret, key of all that a pod cannot start without."""
    spec = pod["spec"]
    yield "ServiceAccount", spec["serviceAccountName"], None
    for secret in spec.get("imagePullSecrets", []):
        yield "Secret", secret["name"], None
    for volume in spec["volumes"]:
        if "configMap" in volume:
            yield "ConfigMap", volume["configMap"]["name"], None
        if "persistentVolumeClaim" in volume:
            yield "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"], None
    for container in containers(pod):
        for variable in container.get("env", []):
            if "valueFrom" in variable:
                secret = variable["valueFrom"]["secretKeyRef"]
                yield "Secret", secret["name"], secret["key"]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted <= {volume["name"] for volume in spec["volumes"]}


def test_what_a_pod_needs_is_made_or_named_by_the_user(rendered: Rendered) -> None:
    values, objects = rendered
    made = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    for pod in pods(objects):
        for kind, name, key in wanted_by(pod):
            if (kind, name) not in made:
                assert name in names_in(values), (kind, name)
            elif key:
                assert key in made[kind, name]["data"], (name, key)
    for ingress in of_kind(objects, "Ingress"):
        for tls in ingress["spec"].get("tls", []):
            assert tls["secretName"] in names_in(values)


def test_a_schedule_s_job_finds_its_files_which_are_valid(rendered: Rendered) -> None:
    values, objects = rendered
    jobs = of_kind(objects, "Job")
    assert len(jobs) == 2 * len(values.get("schedules", {}))  # one to make, one for the uninstall
    for job in jobs:
        (container,) = job["spec"]["template"]["spec"]["containers"]
        words = [*container["command"], *container["args"]]
        name = job["metadata"]["name"].rpartition("-")[2]
        asked = values["schedules"][name]
        reached = [
            f"--endpoint={values['kubeflow']['endpoint']}",
            f"--namespace={values['kubeflow'].get('namespace', 'mlops')}",
        ]
        hook = job["metadata"]["annotations"]["helm.sh/hook"]
        if hook == "pre-delete" or not asked.get("enabled", True):
            assert words == ["scotoma", "kubeflow", "unschedule", name, *reached]
            continue
        gate = [f"--rules=/schedules/{name}.gate.yaml"] if "gate" in asked else []
        assert words == [
            *("scotoma", "kubeflow", "schedule", f"/schedules/{name}.yaml"),
            *(f"--name={name}", f"--out={asked['out']}", *gate, *reached),
        ]
        (config,) = of_kind(objects, "ConfigMap")
        assert parse_config(config["data"][f"{name}.yaml"], name).retraining
        if gate:
            parse_rules(config["data"][f"{name}.gate.yaml"], name)


# --- how many, and where --------------------------------------------------------------------------


def test_a_budget_stands_where_there_are_several(rendered: Rendered) -> None:
    replicas = rendered[0].get("mlflow", {}).get("replicas", 1)
    budgets = of_kind(rendered[1], "PodDisruptionBudget")
    assert len(budgets) == (replicas > 1)


def test_pods_take_turns_where_a_volume_sqlite_or_changing_tables_are_theirs(
    render: Callable[..., Objects],
) -> None:
    def strategy(file: str) -> str:
        objects = render((CHART / "ci" / file).read_text())
        (deployment,) = of_kind(objects, "Deployment")
        return str(deployment["spec"]["strategy"]["type"])

    for file in ("default.yaml", "minio.yaml", "migrate.yaml"):
        assert strategy(file) == "Recreate", file
    assert strategy("team.yaml") == strategy("shared-volume.yaml") == "RollingUpdate"


def test_what_an_uninstall_must_not_take_is_kept(render: Callable[..., Objects]) -> None:
    objects = render()
    for kept in of_kind(objects, "Secret", "PersistentVolumeClaim"):
        assert kept["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert len(of_kind(objects, "Secret", "PersistentVolumeClaim")) == 2


def test_each_image_may_be_named_by_its_digest(render: Callable[..., Objects]) -> None:
    digest = f"@sha256:{'0123456789abcdef' * 4}"
    objects = render(
        f"images: {{registry: r.example/team, mlflow: scotoma-mlflow{digest}, tag: t}}"
    )
    (server,) = [one for one in objects if one["kind"] == "Deployment"]
    (container,) = server["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"r.example/team/scotoma-mlflow{digest}"


def test_a_prefix_is_text_whatever_it_holds(render: Callable[..., Objects]) -> None:
    objects = render('artifacts: {kind: s3, bucket: audits, prefix: "a #b"}')
    (server,) = [one for one in objects if one["kind"] == "Deployment"]
    (container,) = server["spec"]["template"]["spec"]["containers"]
    (place,) = [e for e in container["env"] if e["name"] == "MLFLOW_ARTIFACTS_DESTINATION"]
    assert place["value"] == "s3://audits/a #b"
