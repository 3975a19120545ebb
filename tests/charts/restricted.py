"""Whether a pod keeps Kubernetes' restricted Pod Security Standard, rule by rule.

https://kubernetes.io/docs/concepts/security/pod-security-standards, for Linux, version 1.35: all of
`baseline` and what `restricted` adds, in the page's order. A rule that holds for a pod and for its
containers is broken by either.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["broken_rules"]

Pod = dict[str, Any]

SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
SYSCTLS = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim",
    "projected", "secret",
}  # fmt: skip
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def broken_rules(pod: Pod) -> list[str]:
    """The rules that a pod breaks, each once.

    Args:
        pod: A Pod, or the template of one: `metadata` and `spec`.
    """
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    found = [*_of_annotations(annotations), *_of_pod(pod["spec"])]
    own = pod["spec"].get("securityContext") or {}
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for container in pod["spec"].get(kind) or []:
            found += _of_container(container, own)
    return list(dict.fromkeys(found))


def _of_annotations(annotations: dict[str, str]) -> Iterator[str]:
    for name, profile in annotations.items():
        allowed = profile == "runtime/default" or profile.startswith("localhost/")
        if name.startswith(APPARMOR) and not allowed:
            yield "AppArmor"


def _of_pod(spec: dict[str, Any]) -> Iterator[str]:
    context = spec.get("securityContext") or {}
    yield from _of_either(context)
    if any(spec.get(space) for space in ("hostNetwork", "hostPID", "hostIPC")):
        yield "host namespaces"
    if not {one["name"] for one in context.get("sysctls") or []} <= SYSCTLS:
        yield "sysctls"
    for volume in spec.get("volumes") or []:
        kinds = volume.keys() - {"name"} or {"emptyDir"}
        if "hostPath" in kinds:
            yield "hostPath volumes"
        elif not kinds <= VOLUMES:
            yield "volume types"


def _of_either(context: dict[str, Any]) -> Iterator[str]:
    """Rules for the security context of a pod or of a container."""
    if (context.get("windowsOptions") or {}).get("hostProcess"):
        yield "HostProcess"
    selinux = context.get("seLinuxOptions") or {}
    if selinux.get("type", "") not in SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
        yield "SELinux"
    if _type(context, "appArmorProfile") not in (None, "RuntimeDefault", "Localhost"):
        yield "AppArmor"
    if _type(context, "seccompProfile") not in (None, "RuntimeDefault", "Localhost"):
        yield "seccomp"
    if context.get("runAsNonRoot") is False:
        yield "running as non-root"
    if context.get("runAsUser") == 0:
        yield "running as non-root user"


def _of_container(container: dict[str, Any], pod: dict[str, Any]) -> Iterator[str]:
    context = container.get("securityContext") or {}
    yield from _of_either(context)
    if context.get("privileged"):
        yield "privileged containers"
    if any(port.get("hostPort") for port in container.get("ports") or []):
        yield "host ports"
    if _asks_a_host(container):
        yield "host probes and hooks"
    if context.get("procMount", "Default") != "Default":
        yield "procMount"
    if context.get("allowPrivilegeEscalation") is not False:
        yield "privilege escalation"
    if not (context.get("runAsNonRoot") or pod.get("runAsNonRoot")):
        yield "running as non-root"
    if not (_type(context, "seccompProfile") or _type(pod, "seccompProfile")):
        yield "seccomp"
    capabilities = context.get("capabilities") or {}
    added = set(capabilities.get("add") or [])
    if "ALL" not in (capabilities.get("drop") or []) or not added <= {"NET_BIND_SERVICE"}:
        yield "capabilities"


def _type(context: dict[str, Any], profile: str) -> str | None:
    kind: str | None = (context.get(profile) or {}).get("type")
    return kind


def _asks_a_host(container: dict[str, Any]) -> bool:
    """Whether the kubelet is sent to another host than the pod, by a probe or a hook."""
    hooks = (container.get("lifecycle") or {}).values()
    handlers = [*(container.get(probe) or {} for probe in PROBES), *hooks]
    return any(
        (handler.get(way) or {}).get("host") for handler in handlers
        for way in ("httpGet", "tcpSocket")
    )  # fmt: skip
