"""Schema and documentation are what the comments in values.yaml give."""

from __future__ import annotations

import copy
import importlib.util
import json
import sys
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.charts.conftest import CHART, VALUES
from tests.charts.restricted import broken_rules


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    path = CHART.parent / "generate.py"
    spec = importlib.util.spec_from_file_location("generate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclass looks itself up
    spec.loader.exec_module(module)
    return module


def test_committed_files_are_the_generated_ones(generator: ModuleType) -> None:
    for name, content in generator.generate(CHART).items():
        committed = (CHART / name).read_text(encoding="utf-8")
        assert committed == content, f"{name}: run charts/generate.py"


def test_every_value_is_in_the_documentation_and_in_the_schema(generator: ModuleType) -> None:
    def leaves(values: dict[str, Any], *above: str) -> list[tuple[str, ...]]:
        found = []
        for name, value in values.items():
            deeper = isinstance(value, dict) and value and name != "resources"
            found += leaves(value, *above, name) if deeper else [(*above, name)]
        return found

    text = (CHART / "README.md").read_text(encoding="utf-8")
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    for path in leaves(yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))):
        assert text.count(f"| `{'.'.join(path)}` |") == 1, path
        place = schema
        for name in path:
            place = place["properties"][name]
        assert place["description"], path


def test_the_schema_takes_the_defaults_and_every_file_of_values() -> None:
    from jsonschema import Draft7Validator

    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    Draft7Validator.check_schema(schema)
    for file in (CHART / "values.yaml", *VALUES):
        Draft7Validator(schema).validate(yaml.safe_load(file.read_text(encoding="utf-8")))


def test_a_value_without_documentation_is_refused(generator: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"^a\.c is not documented; write `# --` above it$"):
        generator.read_values("# -- A.\na:\n  # -- B.\n  b: 1\n  c: 2\n")


def test_documentation_belongs_to_the_value_below_it(generator: ModuleType) -> None:
    text = """\
# A remark.

# -- First,
# and more.
a:
  # -- Second.
  b: x  # @schema pattern:^a
  # -- Third.
  c:  # @schema type:object
    d: 1
# -- Last.
# @schema items:{type:
# @schema integer}; maxItems:3
e: []
"""
    found = {".".join(one.path): (one.text, one.schema) for one in generator.read_values(text)}
    assert found == {
        "a": ("First, and more.", {"type": "object"}),
        "a.b": ("Second.", {"type": "string", "pattern": "^a"}),
        "a.c": ("Third.", {"type": "object"}),
        "e": ("Last.", {"type": "array", "items": {"type": "integer"}, "maxItems": 3}),
    }


# --- a pod that keeps the restricted standard breaks no rule, and by one change just one ----------


PROFILE = "container.apparmor.security.beta.kubernetes.io/a"
GOOD: dict[str, Any] = {
    "metadata": {"annotations": {PROFILE: "localhost/x"}},
    "spec": {
        "securityContext": {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            "sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}],
            "seLinuxOptions": {"type": "container_t", "level": "s0:c123"},
        },
        "containers": [
            {
                "name": "a",
                "ports": [{"containerPort": 80}],
                "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
                    "appArmorProfile": {"type": "RuntimeDefault"},
                    "procMount": "Default",
                },
            }
        ],
        "initContainers": [
            {
                "name": "b",
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "seccompProfile": {"type": "Localhost", "localhostProfile": "x"},
                },
            }
        ],
        "volumes": [{"name": "x", "emptyDir": {}}, {"name": "y", "projected": {"sources": []}}],
    },
}
POD, A, B = "spec", "spec.containers.0", "spec.initContainers.0"
BAD = [
    ("HostProcess", f"{POD}.securityContext.windowsOptions", {"hostProcess": True}),
    ("HostProcess", f"{B}.securityContext.windowsOptions", {"hostProcess": True}),
    ("host namespaces", f"{POD}.hostNetwork", True),
    ("host namespaces", f"{POD}.hostPID", True),
    ("host namespaces", f"{POD}.hostIPC", True),
    ("privileged containers", f"{B}.securityContext.privileged", True),
    ("capabilities", f"{A}.securityContext.capabilities.add", ["NET_BIND_SERVICE", "CHOWN"]),
    ("capabilities", f"{A}.securityContext.capabilities.drop", ["NET_RAW"]),
    ("capabilities", f"{B}.securityContext.capabilities", None),
    ("hostPath volumes", f"{POD}.volumes.0", {"name": "x", "hostPath": {"path": "/"}}),
    ("host ports", f"{A}.ports.0.hostPort", 80),
    ("host probes and hooks", f"{A}.livenessProbe.httpGet.host", "10.0.0.1"),
    ("host probes and hooks", f"{A}.lifecycle", {"preStop": {"tcpSocket": {"host": "10.0.0.1"}}}),
    ("AppArmor", f"{A}.securityContext.appArmorProfile.type", "Unconfined"),
    ("AppArmor", "metadata.annotations", {PROFILE: "no"}),
    ("SELinux", f"{POD}.securityContext.seLinuxOptions.type", "spc_t"),
    ("SELinux", f"{A}.securityContext.seLinuxOptions", {"user": "root"}),
    ("SELinux", f"{A}.securityContext.seLinuxOptions", {"role": "sysadm_r"}),
    ("procMount", f"{A}.securityContext.procMount", "Unmasked"),
    ("seccomp", f"{POD}.securityContext.seccompProfile.type", "Unconfined"),
    ("seccomp", f"{B}.securityContext.seccompProfile.type", "Unconfined"),
    ("seccomp", f"{POD}.securityContext.seccompProfile", None),
    ("sysctls", f"{POD}.securityContext.sysctls.0.name", "kernel.msgmax"),
    ("volume types", f"{POD}.volumes.0", {"name": "x", "nfs": {"server": "a", "path": "/"}}),
    ("privilege escalation", f"{A}.securityContext.allowPrivilegeEscalation", None),
    ("privilege escalation", f"{B}.securityContext.allowPrivilegeEscalation", True),
    ("running as non-root", f"{POD}.securityContext.runAsNonRoot", None),
    ("running as non-root", f"{B}.securityContext.runAsNonRoot", False),
    ("running as non-root user", f"{POD}.securityContext.runAsUser", 0),
    ("running as non-root user", f"{B}.securityContext.runAsUser", 0),
]  # fmt: skip


def test_a_pod_that_keeps_the_standard_breaks_no_rule() -> None:
    assert broken_rules(GOOD) == []


@pytest.mark.parametrize(("rule", "path", "value"), BAD)
def test_one_change_breaks_its_rule_and_no_other(rule: str, path: str, value: object) -> None:
    pod = copy.deepcopy(GOOD)
    *way, last = path.split(".")
    place: Any = pod
    for step in way:
        place = place[int(step)] if isinstance(place, list) else place[step]
    place[int(last) if isinstance(place, list) else last] = value
    assert broken_rules(pod) == [rule]


def test_each_container_needs_what_the_pod_does_not_say() -> None:
    pod = copy.deepcopy(GOOD)
    del pod["spec"]["securityContext"]["runAsNonRoot"]
    for kind in ("containers", "initContainers"):
        pod["spec"][kind][0]["securityContext"]["runAsNonRoot"] = True
    assert broken_rules(pod) == []
