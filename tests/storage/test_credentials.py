"""No credential in what others read: every form, anywhere in a text, and nothing else masked."""

from __future__ import annotations

import http.server
import json
import re
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scotoma.storage.credentials import looks_secret, masked
from tests.faults.made import predictions_made_elsewhere
from tests.helpers.commands import ended, scotoma, stderr_of

pytestmark = pytest.mark.slow

SECRET = "Xq7s3cretZ9"
# As they are written; the secret stands at %s.
FORMS = [
    "https://anna:%s@host:5000/path", "postgresql+psycopg2://anna:%s@db/mlflow",
    "https://%s@host", "https://:%s@host", "anna:%s@host:5000", "anna:%s@10.0.0.1",
    "https://host/path?token=%s", "https://host/#token=%s", "https://host/path;token=%s",
    "9://anna:%s@host", "\0://anna:%s@host/x", "https://host/path?page=2&x=%s", "https://host/?%s",
    "https://bucket.s3.amazonaws.com/key?X-Amz-Credential=a&X-Amz-Signature=%s",
    "https://blob.example/c?sv=2021&sig=%s", "Bearer %s", "Authorization: Bearer %s",
    "Authorization: Basic %s==", "password=%s", "api_key=%s", "aws_secret_access_key=%s",
    "-----BEGIN RSA PRIVATE KEY-----\n%s\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n%s", "eyJhbGciOiJIUzI1NiJ9.%s.x", "ghp_aaaaaaaaaaaaaaaa%s",
]  # fmt: skip
PLAIN = [
    "http://mlflow:5000", "sqlite:////var/lib/mlflow.db", "s3://bucket/folder#1/a;b.csv", "off",
    "models:/face@audited", "registry:5000/scotoma:1@sha256:0123abcd", "runs/mlflow", "team@x.org",
    "/data/what? me@home", "basic information", "http://minio.storage:9000", "false", "12:30",
    "a.yaml:2 population.models must be at least 1, got 0", "https://host/#/experiments/1/runs",
    "https://host/runs?page_size=200&order=asc, then", "sqlite:///mlflow.db?timeout=30&mode=rw",
    "set SCOTOMA_KFP_TOKEN or SCOTOMA_KFP_COOKIE, or renew it",
]  # fmt: skip
# Passwords as people choose them: anything that can be typed without a space.
noise = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="@"), max_size=8
)


@given(form=st.sampled_from(FORMS), before=st.sampled_from(["", "cannot reach ", "got '", "("]))
def test_every_form_is_masked_wherever_it_stands(form: str, before: str) -> None:
    text = before + form % SECRET
    shown = masked(text)
    assert SECRET not in shown
    assert masked(shown) == shown
    assert looks_secret("PLAIN", form % SECRET)


@given(
    before=noise,
    after=noise,
    form=st.sampled_from(["https://anna:%s@host:5000", "anna:%s@host:5000"]),
    around=st.sampled_from(["%s", "MLflow at %s failed", "got '%s'; correct it"]),
)
def test_no_part_of_a_password_is_shown(before: str, after: str, form: str, around: str) -> None:
    shown = masked(around % (form % f"{before}{SECRET}{after}"))
    assert SECRET not in shown
    assert "host:5000" in shown or "?" in before + after  # which may begin a query


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_credential_is_shown(text: str) -> None:
    assert masked(text) == text
    assert not looks_secret("NAME", text)


@pytest.mark.parametrize(
    "name",
    ["DB_PASS", "API_KEY", "PRIVATE_KEY", "MY_TOKEN", "apiKey", "DB_PWD", "AWS_SECRET_ACCESS_KEY"],
)
def test_a_secret_is_known_by_its_name_and_its_value_in_the_environment_is_masked(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "orchid-lantern")
    assert looks_secret(name, "x")
    assert masked("it said orchid-lantern") == "it said ***"


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "MONKEY", "COMPASS", "PWD", "PATH"])
def test_other_names_are_no_secrets(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "orchid-lantern")
    assert not looks_secret(name, "x")
    assert masked("it said orchid-lantern") == "it said orchid-lantern"


# --- as users see it ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "uri",
    [
        f"anna:{SECRET}@host:5000",
        *(
            pytest.param(f"http://127.0.0.1:9/{end}={SECRET}", marks=pytest.mark.thorough)
            for end in ("#token", "mlflow;token", "?token")
        ),
    ],
)
def test_no_file_and_no_line_of_an_audit_holds_the_credential_of_a_tracking_uri(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCOTOMA_TRACKING_URI", raising=False)
    config = predictions_made_elsewhere(tmp_path)
    config.write_text(config.read_text().replace('"off"', json.dumps(uri)))
    out, err = ended("audit", config, "--out", tmp_path / "runs" / "run")
    assert "not logged: " in err
    assert SECRET not in out + err
    held = [
        path for path in (tmp_path / "runs").rglob("*")
        if path.is_file() and SECRET.encode() in path.read_bytes()
    ]  # fmt: skip
    assert held == []


@pytest.mark.parametrize(
    ("section", "named"),
    [
        (f"environment: {{DB_PASS: {SECRET}}}", "DB_PASS"),
        (f"environment: {{API_KEY: {SECRET}}}", "API_KEY"),
        (f"environment: {{PRIVATE_KEY: {SECRET}}}", "PRIVATE_KEY"),
        (f"environment: {{HEADER: 'Bearer {SECRET}'}}", "HEADER"),
        (f"environment: {{DATA: 'https://b.example/k?X-Amz-Signature={SECRET}'}}", "DATA"),
        (f"environment: {{SERVER: 'anna:{SECRET}@host:5000'}}", "SERVER"),
        (f"endpoint: 'https://kubeflow.example/?token={SECRET}'", "kubeflow.endpoint"),
        (f"endpoint: ['https://anna:{SECRET}@kubeflow.example']", "kubeflow.endpoint"),
        (f"environment: {{A: ['https://anna:{SECRET}@host']}}", "kubeflow.environment.A"),
    ],
)
def test_a_secret_in_the_kubeflow_section_is_refused_and_not_shown(
    section: str, named: str, tmp_path: Path
) -> None:
    config = tmp_path / "audit.yaml"
    config.write_text(f"variants: [dense, {{prune: [0.5]}}]\nkubeflow: {{{section}}}\n")
    code, out, err = scotoma("kubeflow", "submit", config, "--dry-run", tmp_path / "pipeline.yaml")
    assert (code, out) == (2, "")
    assert named in err
    assert SECRET not in err
    if section.startswith("environment") and "[" not in section:
        assert "kubeflow.secrets" in err
    assert not (tmp_path / "pipeline.yaml").exists()


@pytest.mark.parametrize(
    ("named", "sent"), [("", False), ("http://other.example", False), (None, True)]
)
def test_the_password_goes_only_to_the_host_that_the_environment_names(
    named: str | None, sent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers: list[str | None] = []

    class Catcher(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers.append(self.headers.get("Authorization"))
            self.send_error(401)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Catcher) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        uri = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri if named is None else named)
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "anna")
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", SECRET)
        config = tmp_path / "audit.yaml"
        config.write_text(f"variants: [dense, {{prune: [0.5]}}]\ntracking: {{uri: '{uri}'}}\n")
        code, _, err = scotoma("show", "trend", config)
        server.shutdown()
    assert code == 4
    assert headers
    assert any(headers) == sent
    assert SECRET not in err


def test_a_fault_in_the_type_of_an_address_does_not_show_it(tmp_path: Path) -> None:
    config = tmp_path / "audit.yaml"
    config.write_text(
        f"variants: [dense, {{prune: [0.5]}}]\ntracking: {{uri: ['http://anna:{SECRET}@host']}}\n"
    )
    err = stderr_of("audit", "--plan", config, code=2)
    assert re.search(r"tracking.uri should .*\*\*\*@host", err)
    assert SECRET not in err
