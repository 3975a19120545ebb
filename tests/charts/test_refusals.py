"""Settings that cannot be meant are refused with a sentence, and its way out works."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

Template = Callable[..., subprocess.CompletedProcess[str]]

KUBEFLOW = {"kubeflow": {"endpoint": "http://kubeflow.example"}}
POSTGRES = {"database": {"kind": "postgresql", "secret": "mlflow-database"}}
S3 = {"artifacts": {"kind": "s3", "bucket": "audits"}}
INGRESS = {"ingress": {"enabled": True, "host": "mlflow.example", "tlsSecret": "tls"}}


def scheduled(config: str) -> dict[str, Any]:
    return {"schedules": {"digits": {"out": "s3://audits/digits", "config": config}}}


def cron(text: str) -> dict[str, Any]:
    return KUBEFLOW | scheduled(f"retraining: {{cron: '{text}'}}")


REFUSED: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "sqlite for several": (
        S3 | {"mlflow": {"replicas": 2}},
        "mlflow.replicas is 2, but sqlite is a file that one pod may write; set "
        "database.kind=postgresql, or mlflow.replicas=1",
        POSTGRES,
    ),
    "postgresql without address": (
        {"database": {"kind": "postgresql"}},
        "database.kind=postgresql needs its URIs; name a secret with the keys `runs` and "
        "`passwords` in database.secret",
        POSTGRES,
    ),
    "tables changed at once": (
        S3 | {"mlflow": {"replicas": 2}, "database": POSTGRES["database"] | {"migrate": True}},
        "database.migrate would change the tables from 2 pods at once; set mlflow.replicas=1 for "
        "this upgrade",
        {"mlflow": {"replicas": 1}},
    ),
    "sqlite with an address": (
        {"database": {"secret": "mlflow-database"}},
        'database.secret is "mlflow-database", but sqlite asks for no secret; set '
        "database.kind=postgresql, or leave it out",
        POSTGRES,
    ),
    "s3 without bucket": (
        {"artifacts": {"kind": "s3"}},
        "artifacts.kind=s3 needs a bucket; name it in artifacts.bucket",
        S3,
    ),
    "bucket without s3": (
        {"artifacts": {"bucket": "audits"}},
        "artifacts.kind is volume, but artifacts.bucket, endpoint or secret is set "
        '("audits"); set artifacts.kind=s3, or leave them out',
        S3,
    ),
    "a volume for several": (
        POSTGRES | {"mlflow": {"replicas": 3}},
        "mlflow.replicas is 3, but artifacts are on a volume that is ReadWriteOnce; set "
        "artifacts.kind=s3, or volume.accessMode=ReadWriteMany",
        {"volume": {"accessMode": "ReadWriteMany"}},
    ),
    "ingress to nothing": (
        INGRESS | KUBEFLOW | cron("0 0 3 1 * *") | {"mlflow": {"enabled": False}},
        "ingress.enabled leads to MLflow's server, but mlflow.enabled is false; set one of them "
        "otherwise",
        {"ingress": {}},
    ),
    "ingress without host": (
        {"ingress": {"enabled": True, "tlsSecret": "tls"}},
        "ingress.enabled needs the name that browsers ask for, since MLflow refuses all others; "
        "name it in ingress.host",
        INGRESS,
    ),
    "ingress without passwords": (
        INGRESS | {"auth": {"enabled": False}},
        "ingress.enabled with auth.enabled=false lets everyone read and delete every run; set "
        "auth.enabled=true, or auth.openIngress=true if that is meant",
        {"auth": {"enabled": False, "openIngress": True}},
    ),
    "passwords in the clear": (
        {"ingress": {"enabled": True, "host": "mlflow.example"}},
        "ingress.enabled would send passwords in the clear; name a certificate in "
        "ingress.tlsSecret, or set ingress.tlsElsewhere=true where something before it ends TLS",
        {"ingress": {"enabled": True, "host": "mlflow.example", "tlsElsewhere": True}},
    ),
    "nothing at all": (
        {"mlflow": {"enabled": False}},
        "mlflow.enabled is false and schedules is empty, so there is nothing to install; set one "
        "of them",
        cron("0 0 3 1 * *"),
    ),
    "schedules without Kubeflow": (
        scheduled("retraining: {cron: '0 0 3 1 * *'}"),
        "schedules need a Kubeflow to run on; name its address in kubeflow.endpoint",
        KUBEFLOW,
    ),
    "a name that no pod can have": (
        KUBEFLOW | {"schedules": {"Digits_1": {"out": "s3://audits", "config": "a: 1"}}},
        'schedules: "Digits_1" becomes part of a pod\'s name; use up to 30 small letters, digits '
        "and dashes",
        cron("0 0 3 1 * *"),
    ),
    "a configuration that is none": (
        KUBEFLOW | scheduled("a: b: c"),
        "schedules.digits.config must be the text of a YAML file (error converting YAML to JSON: "
        "yaml: mapping values are not allowed in this context); give it with --set-file "
        "schedules.digits.config=FILE",
        cron("0 0 3 1 * *"),
    ),
    "a schedule without times": (
        KUBEFLOW | scheduled("project: digits"),
        "schedules.digits.config has no retraining.cron, so it would never run; add "
        '`retraining: {cron: "0 0 3 1 * *"}` to it',
        cron("0 0 3 1 * *"),
    ),
    "five fields": (
        cron("0 3 1 * *"),
        "schedules.digits.config: retraining.cron must have Kubeflow's six fields in UTC, seconds "
        'first, got 5 in "0 3 1 * *"; correct it',
        cron("0 */5  3 1 * MON"),
    ),
    "a nickname": (
        cron("@monthly"),
        "schedules.digits.config: retraining.cron must have Kubeflow's six fields in UTC, seconds "
        'first, got 1 in "@monthly"; correct it',
        cron("0 0 3 1 * *"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_with_a_sentence_whose_way_out_works(case: str, template: Template) -> None:
    values, sentence, way_out = REFUSED[case]
    refused = template(values=yaml.safe_dump(values))
    assert refused.returncode != 0
    assert f"): {sentence}\n" in refused.stderr
    accepted = template(values=yaml.safe_dump(values | way_out))
    assert accepted.returncode == 0, accepted.stderr


def test_a_schedule_that_is_taken_off_needs_no_times(template: Template) -> None:
    values = KUBEFLOW | scheduled("project: digits")
    values["schedules"]["digits"]["enabled"] = False
    assert template(values=yaml.safe_dump(values)).returncode == 0


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ("mlflow: {replica: 2}", "mlflow"),
        ("mlflow: {replicas: 0}", "mlflow/replicas"),
        ("mlflow: {workers: two}", "mlflow/workers"),
        ('mlflow: {allowedHosts: ["*"]}', "mlflow/allowedHosts/0"),
        ('mlflow: {allowedHosts: ["a\' ; id"]}', "mlflow/allowedHosts/0"),
        ('mlflow: {allowedHosts: ["*.example"]}', "mlflow/allowedHosts/0"),
        ('mlflow: {allowedHosts: ["mlflow.example:????"]}', "mlflow/allowedHosts/0"),
        ("images: {core: 'scotoma-core@sha256:12'}", "images/core"),
        ('images: {tag: "1\\n  securityContext: {}"}', "images/tag"),
        ('kubeflow: {endpoint: "http://a\\nb"}', "kubeflow/endpoint"),
        ('ingress: {host: "https://mlflow.example"}', "ingress/host"),
        ("database: {kind: mysql}", "database/kind"),
        ("database: {port: 70000}", "database/port"),
        ("artifacts: {bucket: s3://audits}", "artifacts/bucket"),
        ('artifacts: {endpoint: "http://user:word@minio"}', "artifacts/endpoint"),
        ("artifacts: {prefix: /}", "artifacts/prefix"),
        ("auth: {defaultPermission: ALL}", "auth/defaultPermission"),
        ("volume: {size: 20GB}", "volume/size"),
        ("images: {pullPolicy: Sometimes}", "images/pullPolicy"),
        ("networkPolicy: {egressPorts: ['443']}", "networkPolicy/egressPorts/0"),
        ("schedules: {digits: {out: audits, config: a}}", "schedules/digits/out"),
        (
            'schedules: {digits: {out: "/a\\n          image: evil", config: a}}',
            "schedules/digits/out",
        ),
        ("schedules: {digits: {out: /$(SCOTOMA_KFP_TOKEN), config: a}}", "schedules/digits/out"),
        ("schedules: {digits: {config: a}}", "schedules/digits"),
        ("schedules: {digits: {out: 's3://a', config: a, cron: 0 3 1 * *}}", "schedules/digits"),
    ],
)
def test_the_schema_refuses_what_a_value_may_not_be(
    values: str, place: str, template: Template
) -> None:
    done = template(values=values)
    assert done.returncode != 0
    # As helm 4 and as helm 3 say where.
    told = rf"- (at '/{place}'|{place.replace('/', '.')}):"
    assert re.search(told, done.stderr), done.stderr
