"""A stand-in for the server of Kubeflow Pipelines, for tests: it keeps what it gets, runs nothing.

It answers in the forms that Kubeflow Pipelines 2.17.0 was recorded with (`recorded/`), holds every
request and every answer against KFP's own description of its API, and fails on demand. A run "runs"
by being looked at. What a real cluster does with the pipeline, whether pods start and GPUs are
found, it cannot tell.
"""

from __future__ import annotations

import contextlib
import email
import email.policy
import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.kfp_server.contract import Contract
from tests.kfp_server.store import Refused, Store

__all__ = ["Fault", "KfpServer"]

BASE = "/apis/v2beta1"


@dataclass
class Fault:
    """A way to fail, for the next requests that fit.

    Attributes:
        kind: A status such as 503; `lost`: does what is asked and hangs up; `silent`: says nothing
            for a while; `truncated`: breaks off; `half`: half a JSON; `page`: a page for people.
        path: Pattern of `METHOD /path`.
        times: How often.
        headers: Of the answer.
    """

    kind: int | str
    path: str = ".*"
    times: int = 1
    headers: dict[str, str] = field(default_factory=dict)


class KfpServer:
    """The server, on a free port of this machine, in threads of this process.

    Attributes:
        store: What it knows.
        token: If set, what requests must carry as `Authorization: Bearer`.
        version: What it says that it is.
        cookie: If set, what they must carry instead.
        requests: `METHOD /path` of every request.
        violations: What broke the description of the API; a test must find it empty.
        faults: How it is to fail.
    """

    def __init__(self, contract: Contract) -> None:
        self.contract, self.store = contract, Store()
        self.token = self.cookie = ""
        self.version = "2.17.0"
        self.requests: list[str] = []
        self.violations: list[str] = []
        self.faults: list[Fault] = []
        self.lock = threading.Lock()
        self.silence_s = 5.0
        self.listen()

    def listen(self, port: int = 0) -> None:
        """Answer at a port, or at any that is free."""
        handler = type("Handler", (_Handler,), {"kfp": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.open = True

    def close(self) -> None:
        self.open = False
        self._http.shutdown()
        self._http.server_close()

    def fail(self, kind: int | str, path: str = ".*", times: int = 1, **headers: str) -> None:
        """Fail in the next requests that fit the pattern."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.faults.append(Fault(kind, path, times, named))

    def fault_for(self, request: str) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and re.search(fault.path, request):
                fault.times -= 1
                return fault
        return None

    def answer(
        self, method: str, path: str, query: dict[str, str], body: Any, file: bytes
    ) -> dict[str, Any]:
        """What the API does."""
        store = self.store
        match (method, path.removeprefix(BASE).strip("/").split("/")):
            case "GET", ["healthz"]:
                return {"multi_user": store.multi_user, "pipeline_store": "database"}
            case "GET", ["experiments"]:
                store.demand_namespace(query.get("namespace"), "An experiment")
                return store.listed(store.experiments, query, "experiments")
            case "POST", ["experiments"]:
                return store.experiment(body)
            case "GET", ["pipelines"]:
                return store.listed(store.pipelines, query, "pipelines")
            case "POST", ["pipelines", "upload"]:
                body = {"display_name": query["name"], "name": query["name"]}
                spec = store.specification(file)
                whose = {key: query[key] for key in ("namespace",) if key in query}
                pipeline = store.add(store.pipelines, "pipeline_id", body | whose, unique=True)
                first = body | {"pipeline_id": pipeline["pipeline_id"], "pipeline_spec": spec}
                store.add(store.versions, "pipeline_version_id", first, unique=True)
                return pipeline
            case "POST", ["pipelines", "upload_version"]:
                store.one(store.pipelines, query["pipelineid"], "Pipeline")
                body = {
                    "display_name": query["name"], "name": query["name"],
                    "pipeline_id": query["pipelineid"], "pipeline_spec": store.specification(file),
                }  # fmt: skip
                return store.add(store.versions, "pipeline_version_id", body, unique=True)
            case "GET", ["pipelines", pipeline_id, "versions"]:
                filters = query | {"pipeline_id": pipeline_id}
                return store.listed(store.versions, filters, "pipeline_versions")
            case "GET", ["pipelines", pipeline_id, "versions", version_id]:
                return store.one(store.versions, version_id, "PipelineVersion")
            case "GET", ["pipelines", pipeline_id]:
                return store.one(store.pipelines, pipeline_id, "Pipeline")
            case "GET", ["runs"]:
                if not query.get("experiment_id"):
                    store.demand_namespace(query.get("namespace"), "A run")
                return store.listed(store.runs, query, "runs")
            case "POST", ["runs"]:
                return store.start(body)
            case "GET", ["runs", run_id]:
                return store.look(run_id)
            case "POST", ["runs", action] if action.endswith(":retry"):
                return store.retry(action.removesuffix(":retry"))
            case "POST", ["runs", action] if action.endswith(":terminate"):
                return store.terminate(action.removesuffix(":terminate"))
            case "GET", ["recurringruns"]:
                store.demand_namespace(query.get("namespace"), "A job")
                return store.listed(store.recurring, query, "recurringRuns")
            case "POST", ["recurringruns"]:
                return store.schedule(body)
            case "GET", ["recurringruns", key]:
                return store.one(store.recurring, key, "Job")
            case "DELETE", ["recurringruns", key]:
                store.unschedule(key, query.get("propagation_policy", ""))
                return {}
            case "POST", ["recurringruns", action]:
                key, _, verb = action.partition(":")
                wanted = {"enable": "ENABLED", "disable": "DISABLED"}[verb]
                store.one(store.recurring, key, "Job")["status"] = wanted
                return {}
        raise Refused(5, f"{method} {path} is unknown")


class _Handler(BaseHTTPRequestHandler):
    """One request: is it let in, is it to fail, what is answered."""

    kfp: KfpServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else every answer waits 40 ms for an acknowledgement

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def log_message(self, *words: Any) -> None:
        """Tests read `requests`."""

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.kfp.open:  # a connection that was kept ends with the server
            self.close_connection = True
            return
        with self.kfp.lock:
            self.kfp.requests.append(f"{self.command} {parts.path}")
            fault = self.kfp.fault_for(self.kfp.requests[-1])
            failing = fault is not None and fault.kind != "lost"
            if not failing:
                status, text = self._respond(parts.path, query, content)
        if fault is not None and failing:
            self._fail(fault)
            return
        if fault is not None:  # what was asked for is done, and nobody hears of it
            self.close_connection = True
            return
        self._send(status, text)

    def _respond(self, path: str, query: dict[str, str], content: bytes) -> tuple[int, str]:
        kfp = self.kfp
        try:
            if not self._let_in():
                raise Refused(16, "Unauthenticated")
            if path == "/apis/v1beta1/healthz":
                return 200, json.dumps({"tag_name": kfp.version, "multi_user": False})
            body, file = self._parsed(content)
            if faults := kfp.contract.faults_of_request(self.command, path, query, body):
                kfp.violations += faults
                raise Refused(3, "; ".join(faults))
            status, answer = 200, kfp.answer(self.command, path, query, body, file)
        except Refused as refused:
            status, answer = refused.status, refused.body
        kfp.violations += kfp.contract.faults_of_answer(self.command, path, status, answer)
        return status, json.dumps(answer)

    def _let_in(self) -> bool:
        kfp = self.kfp
        if kfp.token:
            return self.headers.get("Authorization") == f"Bearer {kfp.token}"
        return not kfp.cookie or self.headers.get("Cookie") == kfp.cookie

    def _parsed(self, content: bytes) -> tuple[Any, bytes]:
        kind = self.headers.get("Content-Type", "")
        if kind.startswith("multipart/form-data"):
            head = f"Content-Type: {kind}\r\n\r\n".encode()
            message = email.message_from_bytes(head + content, policy=email.policy.HTTP)
            (part,) = message.iter_parts()
            return None, part.get_payload(decode=True)
        return (json.loads(content) if content else None), b""

    def _fail(self, fault: Fault) -> None:
        self.close_connection = True
        if isinstance(fault.kind, int):
            text = json.dumps({"code": fault.kind, "message": f"made to fail with {fault.kind}"})
            self._send(fault.kind, text, fault.headers)
        elif fault.kind == "silent":
            time.sleep(self.kfp.silence_s)
        elif fault.kind == "truncated":
            self._send(200, '{"run_id": "', length=500)
        elif fault.kind == "half":
            self._send(200, '{"run_id": "')
        else:
            self._send(200, "<html>Kubeflow</html>", {"Content-Type": "text/html"})

    def _send(
        self, status: int, text: str, headers: dict[str, str] | None = None, length: int = 0
    ) -> None:
        content = text.encode()
        self.send_response(status)
        for name, value in ({"Content-Type": "application/json"} | (headers or {})).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length or len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        with contextlib.suppress(ConnectionError):  # the client may have had enough
            self.end_headers()
            self.wfile.write(content)
