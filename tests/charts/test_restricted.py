"""A pod that keeps the restricted standard breaks no rule, and by one change just one."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.charts.restricted import broken_rules

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
