"""What the server of a study refuses, asked of the real command as an attacker would."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from scipy import stats

from scotoma.study import guard
from scotoma.study.plan import StudyFolder
from tests.study.conftest import VARIANT, make_run, new_study
from tests.study.serving import Client, Reply, invite, serving
from tests.study.test_study_browser import final_answers

pytest.importorskip("starlette", reason="the extra study is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="the extra study is not installed")
from scotoma.study.server import cookie_name  # noqa: E402
from scotoma.study.timed_protocol import TimedProtocol  # noqa: E402

pytestmark = pytest.mark.slow

SCRIPT = "<script>alert(1)</script>"
KEY = "0123456789abcdef" * 2


@dataclass
class Served:
    address: str
    folder: Path
    tokens: dict[str, str]
    mine: Client

    def answer(self, **changed: Any) -> dict[str, Any]:
        item = StudyFolder(self.folder).orders(1).main[0]
        known = {"key": KEY, "place": "m0", "item": item, "question": "q1", "value": "yes"}
        return {**known, "shown_ms": 5, **changed}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A study of which one class is named like a script, and a session of annotator 1."""
    folder = tmp_path_factory.mktemp("attacked")
    run = make_run(folder / "run", classes=(SCRIPT, "dog", "owl", "fox"))
    study = folder / "study"
    new_study(run, study)
    tokens = invite(study)
    with serving("study", "serve", study) as (address, _):
        mine = Client(address)
        assert mine.enter(tokens["1"]).status == 200
        yield Served(address, study, tokens, mine)


@pytest.mark.parametrize(
    "path",
    [
        "/image/../../key.json",
        "/image/..%2f..%2fkey.json",
        "/image/%2e%2e/key.json",
        "/image//etc/passwd",
        "/image/%2Fetc%2Fpasswd",
        "/image/..%5c..%5ckey.json",
        "/image/key.json%00.png",
        "/../key.json",
        "/key.json",
        "/plan.json",
        "/answers.sqlite",
        "/study.css/../../key.json",
    ],
)
def test_no_path_comes_from_a_request(served: Served, path: str) -> None:
    reply = served.mine.ask("GET", path)
    assert reply.status == 404
    assert len(reply.body) < 50


def test_an_unknown_item_is_not_found_and_no_item_is_there_for_strangers(served: Served) -> None:
    """Every annotator judges every item, so none is another one's alone."""
    own = StudyFolder(served.folder).orders(1)
    unknown = served.mine.ask("GET", f"/image/{'0' * 32}")
    assert (unknown.status, unknown.body) == (404, b'{"error":"not found"}')
    nowhere = served.mine.ask("GET", "/nowhere")
    assert _without_date(nowhere) == _without_date(unknown)  # no path is told from an item
    assert served.mine.ask("GET", f"/image/{own.main[0]}").status == 200
    assert Client(served.address).ask("GET", f"/image/{own.main[0]}").status == 401
    elsewhere = served.answer(item=own.main[1])
    assert served.mine.ask("POST", "/answer", elsewhere).status == 400


def _without_date(reply: Reply) -> tuple[int, bytes, dict[str, str]]:
    return reply.status, reply.body, {k: v for k, v in reply.headers.items() if k != "date"}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"item": "0" * 32}, "item is not at this place"),
        ({"place": "m99999"}, "place is none of this annotator's"),
        ({"place": "m-1"}, "place is none of this annotator's"),
        ({"question": "arm"}, "question is not asked here"),
        ({"question": "guess"}, "question is not asked here"),
        ({"value": "maybe"}, "value is not one of the answers"),
        ({"value": ["yes"]}, "the fields of an answer must be texts"),
        ({"key": "x"}, "key must be 32 hexadecimal digits"),
        ({"shown_ms": -1}, "shown_ms must be whole milliseconds within a day"),
        ({"shown_ms": True}, "shown_ms must be whole milliseconds within a day"),
        ({"annotator": 2}, "an answer must have the fields"),
        ({"question": "comment", "value": "x" * 501}, "a comment has at most 500 characters"),
    ],
)
def test_an_answer_has_a_closed_set_of_values(
    served: Served, changed: dict[str, Any], sentence: str
) -> None:
    reply = served.mine.ask("POST", "/answer", served.answer(**changed))
    assert reply.status == 400
    assert sentence in reply.content["error"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"Host": "evil.example"}, 421),
    ],
)
def test_another_origin_host_or_form_changes_nothing(
    served: Served, headers: dict[str, str], status: int
) -> None:
    before = final_answers(served.folder)
    reply = served.mine.ask("POST", "/answer", served.answer(), **headers)
    assert reply.status == status
    assert "access-control-allow-origin" not in reply.headers
    assert final_answers(served.folder) == before


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE"])
def test_no_other_method_is_answered(served: Served, method: str) -> None:
    assert served.mine.ask(method, "/state").status == 405


def test_a_wrong_host_reads_nothing_either(served: Served) -> None:
    assert served.mine.ask("GET", "/state", Host="evil.example").status == 421


def test_five_megabytes_are_refused_before_they_are_read(served: Served) -> None:
    """Whether the length is told or not; a body may be cut off while it is sent."""
    assert served.mine.ask("POST", "/answer", body=b"{}", Content_Length="5000000").status == 413
    try:
        chunk = b"%x\r\n" % 5_000_000 + b" " * 5_000_000 + b"\r\n0\r\n\r\n"
        reply = served.mine.ask(
            "POST", "/answer", body=chunk, Transfer_Encoding="chunked", Content_Length=""
        )
        assert reply.status in (400, 413)
    except (BrokenPipeError, ConnectionResetError):
        pass
    assert served.mine.ask("GET", "/state").status == 200


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b"[" * 4000, b"\xff", b'"\\ud800"'])
def test_what_is_no_object_is_refused(served: Served, body: bytes) -> None:
    assert served.mine.ask("POST", "/answer", body=body).status == 400


def test_sql_in_a_comment_is_text(served: Served) -> None:
    comment = "'); DROP TABLE events; --"
    event = served.answer(question="comment", value=comment, key="a" * 32)
    assert served.mine.ask("POST", "/answer", event).status == 200
    assert final_answers(served.folder)["m0"]["comment"] == comment


def test_a_comment_loses_what_steers_the_text_around_it_and_is_kept(served: Served) -> None:
    comment = "a family \U0001f469\u200d\U0001f467 \u202eright\tto left\ud800"
    event = served.answer(question="comment", value=comment, key="b" * 32)
    for _ in range(2):  # sent again, it is the same answer
        assert served.mine.ask("POST", "/answer", event).status == 200
    kept = final_answers(served.folder)["m0"]["comment"]
    assert kept == "a family \U0001f469\U0001f467 right to left"


def test_a_class_named_like_a_script_is_text(served: Served, browser: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    dialogs: list[str] = []
    page.on("dialog", lambda one: (dialogs.append(one.message), one.dismiss()))
    page.goto(f"{served.address}/#{served.tokens['2']}")
    page.get_by_role("button", name="I agree, begin").click()
    page.get_by_role("heading", name="Practice image 1 of 6").wait_for()
    for number in range(6):
        page.get_by_role("heading", name=f"Practice image {number + 1} of 6").wait_for()
        if SCRIPT in page.locator(".labels").inner_text():
            break
        for key in "ynuyny":
            page.keyboard.press(key)
        page.keyboard.press("Enter")
    assert SCRIPT in page.locator(".labels").inner_text()
    assert page.locator("main script").count() == 0
    assert dialogs == []
    context.close()


def test_no_response_of_a_session_names_variant_arm_file_or_score(served: Served) -> None:
    orders, key = StudyFolder(served.folder).orders(1), StudyFolder(served.folder).key()
    replies = [served.mine.ask("GET", path) for path in ("/", "/study.css", "/state")]
    replies.append(served.mine.ask("POST", "/invitation", {"token": served.tokens["1"]}))
    images = {item: served.mine.ask("GET", f"/image/{item}") for item in orders.main}
    words = [VARIANT, "prune", "secret-", "taxicab", "modal", "dense", "example_id", '"arm"', "CIE"]
    for reply in [*replies, *images.values()]:
        assert reply.status == 200
        text = reply.body + repr(sorted(reply.headers.items())).encode()
        if reply.headers["content-type"] == "image/png":
            assert re.findall(rb"tEXt|iTXt|zTXt|eXIf|tIME", text) == []
            continue  # whose pixels are noise
        assert [word for word in words if word.encode() in text] == []
    assert len({_size(reply) for reply in images.values()}) == 1  # so no length tells an arm
    assert {key[item].arm for item in images} == {"A", "B", "C"}


def _size(reply: Reply) -> tuple[int, int]:
    return len(reply.body), len(repr(sorted(reply.headers.items())))


def test_orders_say_nothing_of_arms(served: Served) -> None:
    """Over all annotators, arm A stands in the middle on average."""
    folder = StudyFolder(served.folder)
    key = folder.key()
    places = [
        np.mean([n for n, item in enumerate(folder.orders(a).main) if key[item].arm == "A"])
        for a in range(1, 40)
    ]
    middle = (len(folder.orders(1).main) - 1) / 2
    assert abs(np.mean(places) - middle) < 4 * np.std(places) / len(places) ** 0.5 + 0.1


def test_too_many_requests_are_answered_by_429(served: Served) -> None:
    cookieless = Client(served.address)
    statuses = [cookieless.ask("GET", "/study.css").status for _ in range(200)]
    assert statuses[0] == 200
    assert 429 in statuses
    assert served.mine.ask("GET", "/state").status == 200


def flood(address: str, requests: int, cookie: str) -> list[int]:
    """Status of each of many requests on one connection, all with different forged cookies."""
    split = urlsplit(address)
    connection = http.client.HTTPConnection(split.hostname or "", split.port, timeout=30)
    statuses = []
    for number in range(requests):
        connection.request("GET", "/state", headers={"Cookie": f"{cookie}=forged-{number}"})
        reply = connection.getresponse()
        reply.read()
        statuses.append(reply.status)
    connection.close()
    return statuses


def flooded(planned: Path, tmp_path: Path, requests: int) -> None:
    folder = shutil.copytree(planned, tmp_path / "study")
    tokens = invite(folder)
    with serving("study", "serve", folder, "--behind-proxy", "https://x.example") as (_, server):
        address = f"http://127.0.0.1:{listening_port(server.pid)}"
        client = Client(address)
        from_elsewhere = {
            "X_Forwarded_For": "203.0.113.5, 198.51.100.7",
            "Origin": "https://x.example",
        }
        token = {"token": tokens["1"], "consent": True}
        entered = client.ask("POST", "/session", token, Host="x.example", **from_elsewhere)
        assert entered.status == 200
        name = entered.headers["set-cookie"].partition("=")[0]
        statuses = flood(address, requests, name)
        assert set(statuses) <= {401, 429}  # how many of which depends on how fast it answers
        client.cookie = entered.headers["set-cookie"].partition(";")[0]
        # Neither who is in nor anybody at another address is shut out.
        assert client.ask("GET", "/state", Host="x.example", **from_elsewhere).status == 200


def listening_port(pid: int) -> int:
    """Port of a process behind a proxy, which prints the proxy's address."""
    inodes = {
        os.readlink(one)
        for one in Path(f"/proc/{pid}/fd").iterdir()
        if one.is_symlink() and os.path.islink(one)
    }
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        parts = line.split()
        if parts[3] == "0A" and f"socket:[{parts[9]}]" in inodes:
            return int(parts[1].partition(":")[2], 16)
    raise AssertionError("no port is listened on")


def test_a_flood_of_forged_sessions_shuts_out_its_address_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guard.time, "monotonic", lambda: 0.0)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 401, "headers": []})

    guarded = guard.Guard(app, ["x"], ["http://x"])

    async def asked(address: str, cookie: str) -> int:
        sent = []

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        headers = [(b"host", b"x"), (b"cookie", cookie.encode())]
        scope = {"type": "http", "method": "GET", "client": (address, 1), "headers": headers}
        await guarded(scope, None, send)
        return int(sent[0]["status"])

    async def flooded_in_process() -> tuple[list[int], int]:
        forged = [await asked("192.0.2.1", f"session=forged-{number}") for number in range(1_000)]
        return forged, await asked("192.0.2.2", "session=forged-0")

    with ThreadPoolExecutor(1) as apart:  # from the event loop of a browser
        forged, elsewhere = apart.submit(asyncio.run, flooded_in_process()).result(timeout=60)
    burst = guard.OF_ADDRESS[0]
    assert forged == [401] * burst + [429] * (1_000 - burst)
    assert elsewhere == 401


def test_who_is_in_stays_in_while_another_address_floods(planned: Path, tmp_path: Path) -> None:
    flooded(planned, tmp_path, 1_000)


@pytest.mark.thorough
def test_10000_requests_leave_the_server_up(planned: Path, tmp_path: Path) -> None:
    flooded(planned, tmp_path, 10_000)


class _Hasty(TimedProtocol):
    seconds = 0.3


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"GET /",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /",
        b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n",
    ],
    ids=["nothing", "head", "body", "second-head", "chunks"],
)
def test_a_slow_client_is_left(head: bytes) -> None:
    """It trickles on, a byte at a time; without a deadline this would never end."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async def attack() -> None:
        config = uvicorn.Config(app, http=_Hasty, log_config=None, lifespan="off", ws="none")
        server = uvicorn.Server(config)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            serving_ = asyncio.create_task(server.serve([listener]))
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(head)
            rest = asyncio.create_task(reader.read())
            try:
                while not rest.done():
                    writer.write(b"1")
                    await asyncio.sleep(0.02)
                assert rest.exception() is None or isinstance(rest.exception(), ConnectionError)
            finally:
                writer.close()
                server.should_exit = True
                await serving_

    with ThreadPoolExecutor(1) as apart:  # from the event loop of a browser
        apart.submit(asyncio.run, attack()).result(timeout=60)


def test_responses_have_one_length_in_every_arm(served: Served) -> None:
    """Labels, answers and images of the arms: no permutation of arms makes them more alike."""
    folder = StudyFolder(served.folder)
    orders, key = folder.orders(3), folder.key()
    client = Client(served.address)
    assert client.enter(served.tokens["3"]).status == 200
    labels = client.ask("GET", "/state").content["labels"]
    lengths, arms = [], []
    for item in sorted(key):
        place = orders.main.index(item)
        event = {"place": f"m{place}", "item": item, "key": f"{place:032x}"}
        saved = client.ask("POST", "/answer", served.answer(**event))
        image = client.ask("GET", f"/image/{item}")
        assert (saved.status, image.status) == (200, 200)
        lengths.append([*_size(saved), *_size(image), len(json.dumps(labels[item]))])
        arms.append(key[item].arm)
    measured = np.array(lengths)
    assert (measured[:, :-1] == measured[0, :-1]).all()  # but for the names of classes, which
    found = stats.permutation_test(  # stand as often in each arm
        [measured[np.array(arms) == arm, -1] for arm in ("A", "B", "C")],
        lambda *groups: np.ptp([np.mean(one) for one in groups]),
        n_resamples=999, rng=np.random.default_rng(0), alternative="greater",
    )  # fmt: skip
    assert found.pvalue > 0.01


def test_forged_tokens_open_nothing_and_close_the_door(planned: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(planned, tmp_path / "study")
    tokens = invite(folder)
    with serving("study", "serve", folder) as (address, server):
        client = Client(address)
        assert (
            client.ask(
                "GET", "/state", Cookie=f"{cookie_name(StudyFolder(folder).plan().sha256)}=forged"
            ).status
            == 401
        )
        assert client.ask("POST", "/answer", {}).status == 401
        entered = client.enter(tokens["1"])
        cookie = entered.headers["set-cookie"]
        assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Path=/"))
        assert client.ask("POST", "/session", {"token": tokens["1"]}).status == 400  # no consent
        wrong = [tokens["1"][:-1] + "~", "\ud800", 5, None, "x" * 3000]
        for token in wrong:
            assert client.ask("POST", "/invitation", {"token": token}).status == 403
        late = client.ask("POST", "/invitation", {"token": tokens["2"]})
        assert (late.status, late.headers["retry-after"]) == (429, "60")
        assert client.ask("GET", "/state").status == 200  # who is in stays in
        server.terminate()
        logged = "".join(server.communicate(timeout=60))
    assert [number for number, token in tokens.items() if token in logged] == []
    stored = (folder / "answers.sqlite").read_bytes()
    assert [number for number, token in tokens.items() if token.encode() in stored] == []
