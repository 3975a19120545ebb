"""Verdicts on changed examples, and rates with corrected labels."""

from __future__ import annotations

import csv
import io
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from scotoma.audit.findings import ReviewedAudit
from scotoma.datasets import AuditedExamples
from scotoma.predictions import Predictions
from scotoma.review.measure import corrected_change
from scotoma.review.verdicts import FILE, Review, open_reviews, read_reviews
from scotoma.run import Run, checksums
from tests.helpers.commands import scotoma
from tests.review.serving import Client, serving

VARIANT = "prune-0.9"
pytestmark = pytest.mark.slow


def world(rng: np.random.Generator, n: int = 1500) -> tuple[Any, ...]:
    """Labels of which one in ten is wrong, and models that know better where it is."""
    truth = rng.integers(3, size=n)
    labels = np.where(rng.random(n) < 0.1, (truth + 1) % 3, truth)
    hard = rng.random((n, 1)) < 0.3
    dense, compressed = (
        np.where(hard & (rng.random((n, 6)) < p), (truth[:, None] + 1) % 3, truth[:, None])
        for p in (0.3, 0.7)
    )
    return truth, labels, dense, compressed


def changed_rows(dense: Any, compressed: Any) -> Any:
    modal = [
        np.stack([(m == c).sum(axis=1) for c in range(3)], 1).argmax(1) for m in (dense, compressed)
    ]
    return modal[0] != modal[1]


def test_rates_are_those_of_true_labels_once_all_is_reviewed() -> None:
    truth, labels, dense, compressed = world(np.random.default_rng(0))
    everything = np.ones(len(truth), bool)
    found = corrected_change(
        dense, compressed, labels, truth, everything, np.zeros(len(truth), int), everything
    )
    assert found is not None
    assert found.dense == pytest.approx((dense != truth[:, None]).mean())
    assert found.compressed == pytest.approx((compressed != truth[:, None]).mean())


def test_a_random_sample_gives_the_true_change_on_average_and_its_interval_holds_it() -> None:
    """Reviewing changed examples alone would be off, which the last line shows."""
    rng = np.random.default_rng(1)
    errors, alone, held = [], [], 0
    for _ in range(60):
        truth, labels, dense, compressed = world(rng)
        cie = changed_rows(dense, compressed)
        drawn = cie | (rng.random(len(truth)) < 0.15)
        group = rng.random(len(truth)) < 0.6
        found = corrected_change(
            dense, compressed, labels, np.where(drawn, truth, labels), drawn,
            cie.astype(int), group,
        )  # fmt: skip
        assert found is not None
        expected = 0.3 * 0.4  # of hard examples, compressed members miss 0.4 more
        true = ((compressed != truth[:, None]).mean(1) - (dense != truth[:, None]).mean(1))[group]
        errors.append(found.change - true.mean())
        held += found.low <= expected <= found.high
        only = np.where(cie, truth, labels)[:, None]
        alone.append(
            ((compressed != only).mean(1) - (dense != only).mean(1))[group].mean() - true.mean()
        )
    assert abs(np.mean(errors)) < 3 * np.std(errors) / 60**0.5 + 1e-3
    assert held >= 54
    assert abs(np.mean(alone)) > 5 * abs(np.mean(errors))


def test_ambiguous_examples_leave_the_rate() -> None:
    labels = np.zeros(40, int)
    dense, compressed = np.zeros((40, 3), int), np.zeros((40, 3), int)
    compressed[:10] = 1
    corrected = labels.copy()
    corrected[:10] = -1
    everything = np.ones(40, bool)
    found = corrected_change(dense, compressed, labels, corrected, everything, labels, everything)
    assert found is not None
    assert (found.dense, found.compressed) == (0, 0)


def reviewed(run: Run, *, unchanged: int, wrong: int = 3) -> None:
    """Review every changed example and the first unchanged ones by lot."""
    from scotoma.steps.review import lots_of

    scores = pl.read_parquet(run.path("divergence.parquet"))
    lots = pl.Series("lot", lots_of(run, scores["example_id"].to_list()).astype("uint64"))
    scores = scores.with_columns(lots).sort("lot")
    labels = dict(
        AuditedExamples.read(run.examples, images=False)
        .table.select("example_id", "label")
        .iter_rows()
    )
    ids = [
        *scores.filter("cie")["example_id"],
        *scores.filter(~pl.col("cie"))["example_id"][:unchanged],
    ]
    with open_reviews(run) as reviews:
        for number, one in enumerate(ids):
            label = "cat" if labels[one] != "cat" else "dog"
            verdict = ("label wrong", label) if number < wrong else ("model wrong", "")
            reviews.add(Review(one, VARIANT, *verdict, "", "me", "2027-01-01T00:00:00+00:00"))


def measured(run: Run) -> tuple[ReviewedAudit, str]:
    code, out, err = scotoma("audit", "--step", "bias", "--labels", "reviewed", "--out", run.root)
    assert code == 0, err
    return ReviewedAudit.model_validate_json(run.path("reviewed", "audit.json").read_bytes()), out


def test_without_a_random_sample_only_flips_are_counted_again(reviewed_run: Run) -> None:
    reviewed(reviewed_run, unchanged=0)
    found, out = measured(reviewed_run)
    (one,) = found.variants
    assert one.rates == ()
    said = "Rates need the first 20 unchanged examples of the random order reviewed"
    assert said in " ".join(out.split())
    assert one.changed.reviewed == one.changed.drawn == one.changed.examples
    assert one.changed.corrected == 3
    assert one.before != one.after
    total = one.changed.reviewed
    for flips in (one.before, one.after):
        assert sum(flips.model_dump().values()) == total


def test_with_one_rates_are_measured_again_and_the_seal_holds(reviewed_run: Run) -> None:
    reviewed(reviewed_run, unchanged=40)
    found, out = measured(reviewed_run)
    (one,) = found.variants
    assert [rate.group for rate in one.rates] == ["all", "side=left", "side=right"]
    overall = one.rates[0]
    assert overall.low is not None
    assert overall.low < overall.change < (overall.high or 0)
    assert overall.change != overall.before
    assert "Change of the error, before and after correction" in out
    assert checksums.compare_checksums(reviewed_run.mirror).intact
    first = reviewed_run.path("reviewed", "audit.json").read_bytes()
    measured(reviewed_run)
    assert reviewed_run.path("reviewed", "audit.json").read_bytes() == first


def test_reviews_leave_as_labels_and_as_what_to_label_next(reviewed_run: Run) -> None:
    reviewed(reviewed_run, unchanged=0)
    code, out, _ = scotoma("review", reviewed_run.root, "--export", "labels")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert [row["verdict"] for row in rows].count("label wrong") == 3
    assert all(row["corrected_label"] != row["given_label"] for row in rows[:3])
    code, out, _ = scotoma("review", reviewed_run.root, "--export", "to-label")
    assert (code, out) == (0, "example_id,dense_modal,compressed_modal,taxicab\n")


def test_a_run_in_object_storage_is_reviewed_measured_and_shown(seen: Run, s3: Any) -> None:
    """Verdicts are in the storage once they are acknowledged, whoever asks next."""
    checksums.seal(seen.mirror)
    for path in sorted(seen.root.rglob("*")):
        if path.is_file():
            s3.put(f"run/{path.relative_to(seen.root).as_posix()}", path.read_bytes())
    place = s3.uri("run")

    def stored(key: str) -> bytes:
        return bytes(s3.client.get_object(Bucket=s3.bucket, Key=key)["Body"].read())

    with serving("review", place, "--name", "Ada") as (address, _):
        link, _, token = address.partition("/#")
        client = Client(link)
        reply = client.ask("POST", "/session", {"token": token})
        client.cookie = reply.headers["set-cookie"].partition(";")[0]
        for number in range(2):
            verdict = {"place": number, "verdict": "ambiguous", "label": "", "comment": ""}
            assert client.ask("POST", "/verdict", verdict).status == 200
        rows = pl.read_parquet(io.BytesIO(stored("run/reviews.parquet")))
        assert rows["verdict"].to_list() == ["ambiguous", "ambiguous"]
        s3.put("run/reviews.parquet", b"another reviewer's")
        refused = client.ask("POST", "/verdict", verdict)
        assert refused.status == 400
        assert "was changed by another reviewer" in refused.content["error"]
    kept = io.BytesIO()
    rows.write_parquet(kept)
    s3.put("run/reviews.parquet", kept.getvalue())
    code, out, err = scotoma("review", place, "--export", "labels")
    assert (code, err, out.count("ambiguous")) == (0, "", 2)
    code, _, err = scotoma("audit", "--step", "bias", "--labels", "reviewed", "--out", place)
    assert code == 0, err
    assert json.loads(stored("run/reviewed/audit.json"))["reviewers"] == ["Ada"]
    code, _, err = scotoma("show", place, "--quiet")
    assert (code, err) == (0, "")
    assert b'id="reviewed"' in stored("run/report.html")
    study = ("study", "new", place, "--variant", VARIANT, "--per-arm", "4", "--allow-imbalance")
    assert "is in object storage: give --out" in scotoma(*study)[2]
    code, _, err = scotoma(*study, "--leaky", "--out", seen.root.parent / "study", "--quiet")
    assert (code, err) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("audit", "--labels", "reviewed", "--out", "{run}"), 2, "give --step bias and --out RUN"),
        (
            ("audit", "--step", "bias", "--labels", "reviewed", "--out", "{run}"),
            4,
            "holds no verdicts; make some with scotoma review",
        ),
        (("review", "{run}", "--variant", "int8"), 2, "--variant must be one of prune-0.9"),
        (("review", "nowhere"), 2, "run nowhere holds no config.yaml"),
    ],
)
def test_what_cannot_be_reviewed_is_one_sentence(
    seen: Run, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    done = scotoma(*(one.format(run=seen.root) for one in arguments))
    assert done[0] == code, done[2]
    assert sentence in done[2]
    assert done[2].count("\n") == 1


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Run:
    from tests.study.conftest import make_run

    return make_run(tmp_path_factory.mktemp("review") / "run", examples=160)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A reviewer who has entered."""
    from tests.study.conftest import make_run

    run = make_run(tmp_path_factory.mktemp("attacked") / "run", examples=160)
    with serving("review", run.root, "--name", "Ada") as (address, _):
        link, _, token = address.partition("/#")
        one = Client(link)
        reply = one.ask("POST", "/session", {"token": token})
        one.cookie = reply.headers["set-cookie"].partition(";")[0]
        assert all(word in reply.headers["set-cookie"] for word in ("HttpOnly", "SameSite=strict"))
        yield one


VERDICT = {"place": 0, "verdict": "ambiguous", "label": "", "comment": ""}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Host": "evil.example"}, 400),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 400),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"Cookie": "scotoma=forged"}, 401),
        ({"Content_Length": "5000000"}, 413),
        ({"Transfer_Encoding": "chunked"}, 413),
    ],
)
def test_other_sites_and_strangers_leave_no_verdict(
    client: Client, headers: dict[str, str], status: int
) -> None:
    before = client.ask("GET", "/state").content
    chunked = {"body": b"0\r\n\r\n"} if "Transfer_Encoding" in headers else {"content": VERDICT}
    reply = client.ask("POST", "/verdict", **chunked, **headers)
    assert reply.status == status
    assert "access-control-allow-origin" not in reply.headers
    assert client.ask("GET", "/state").content == before


def test_another_host_reads_nothing(client: Client) -> None:
    for path in ("/", "/state", "/image/0", "/nowhere"):
        reply = client.ask("GET", path, Host="evil.example")
        assert reply.status == 400
        assert b"secret-" not in reply.body


@pytest.mark.parametrize(
    "path",
    [
        "/image/../../config.yaml",
        "/image/..%2f..%2fconfig.yaml",
        "/image/%2Fetc%2Fpasswd",
        "/image/99999999999999999999",
        "/image/-1",
        "/reviews.parquet",
        "/study.css",
    ],
)
def test_no_path_comes_from_a_request(client: Client, path: str) -> None:
    reply = client.ask("GET", path)
    assert reply.status == 404
    assert len(reply.body) < 50


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE"])
def test_no_other_method_is_answered(client: Client, method: str) -> None:
    assert client.ask(method, "/state").status == 405


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"{", b"[" * 4000, b"\xff", b'"\\ud800"', b'{"token": "\\ud800"}']
)
def test_what_is_no_verdict_is_refused(client: Client, body: bytes) -> None:
    assert client.ask("POST", "/verdict", body=body).status == 400
    assert client.ask("POST", "/session", body=body).status == 403


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"arm": "A"}, "a verdict has place, verdict, label and comment"),
        ({"place": -1}, "place is none of this list"),
        ({"place": True}, "place is none of this list"),
        ({"place": 10**6}, "place is none of this list"),
        ({"comment": 5}, "verdict, label and comment are texts"),
        ({"verdict": "fine"}, "verdict must be one of label wrong, ambiguous, model wrong, ignore"),
        ({"label": "cat"}, "a corrected label belongs to `label wrong`, and to no other verdict"),
    ],
)
def test_a_verdict_has_a_closed_set_of_values(
    client: Client, changed: dict[str, Any], sentence: str
) -> None:
    reply = client.ask("POST", "/verdict", {**VERDICT, **changed})
    assert (reply.status, reply.content) == (400, {"error": sentence})


def test_strangers_are_told_what_to_do(client: Client) -> None:
    stranger = Client(client.address)
    told = [
        stranger.ask("POST", "/session", {"token": "x"}).content["error"],
        stranger.ask("GET", "/state").content["error"],
        stranger.ask("POST", "/verdict", VERDICT, Origin="http://evil.example").content["error"],
        client.ask("POST", "/verdict", VERDICT, Origin="http://evil.example").content["error"],
        client.ask("POST", "/verdict", VERDICT, Content_Type="text/plain").content["error"],
        client.ask("POST", "/verdict", VERDICT, Content_Length="5000000").content["error"],
    ]
    assert told == [
        "this link is not valid", "open the link again", "open the link again",
        "only from its own page", "only application/json", "at most 4,096 bytes",
    ]  # fmt: skip


def test_a_comment_is_one_line_of_text(client: Client) -> None:
    comment = "'); DROP TABLE rows; -- \u202eright\tto left\ud800"
    assert client.ask("POST", "/verdict", {**VERDICT, "comment": comment}).status == 200
    kept = client.ask("GET", "/state").content["cards"][0]["review"]["comment"]
    assert kept == "'); DROP TABLE rows; -- right to left"


def test_the_page_loads_nothing_but_images_and_its_own_data(client: Client) -> None:
    page = client.ask("GET", "/")
    text = page.body.decode().replace("&#39;", "'")
    assert "default-src 'none'; img-src 'self' data:; connect-src 'self'" in text
    assert page.headers["content-security-policy"] == "frame-ancestors 'none'"
    assert b"secret-" not in page.body


def test_a_taken_port_is_one_sentence(seen: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, out, err = scotoma("review", seen.root, "--port", port)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"port {port} of 127.0.0.1 cannot be listened on" in err


def test_labels_corrected_on_the_page_are_those_that_rates_are_measured_with(
    reviewed_run: Run,
) -> None:
    """From the page's own requests to the result; all is reviewed, so that nothing is estimated."""
    examples = AuditedExamples.read(reviewed_run.examples, images=False)
    labels = dict(examples.table.select("example_id", "label").iter_rows())
    command = ("review", reviewed_run.root, "--name", "Ada", "--unchanged", "160")
    with serving(*command) as (address, _):
        link, _, token = address.partition("/#")
        page = Client(link)
        reply = page.ask("POST", "/session", {"token": token})
        page.cookie = reply.headers["set-cookie"].partition(";")[0]
        cards = page.ask("GET", "/state").content["cards"]
        assert {card["example_id"] for card in cards} == set(labels)
        for place, card in enumerate(cards):
            verdict, label = "model wrong", ""
            if place % 5 == 0:
                verdict = "label wrong"
                label = next(one for one in examples.classes if one != labels[card["example_id"]])
                labels[card["example_id"]] = label
            said = {"place": place, "verdict": verdict, "label": label, "comment": ""}
            assert page.ask("POST", "/verdict", said).content == {"saved": place}
    found, out = measured(reviewed_run)
    truth = np.array([examples.classes.index(labels[one]) for one in examples.ids])[:, None]
    sides = examples.table["side"].to_numpy()
    (one,) = found.variants
    assert one.changed.corrected > 0
    for rate in one.rates:
        own = sides == rate.group.partition("=")[2] if rate.group != "all" else sides == sides
        errors = [
            (Predictions.read(reviewed_run.predictions(name)).predicted != truth)[own].mean()
            for name in ("dense", VARIANT)
        ]
        assert (rate.dense, rate.compressed) == pytest.approx(errors)
        assert rate.change == pytest.approx(errors[1] - errors[0])
    assert "Change of the error, before and after correction" in out
    code, shown, _ = scotoma("review", reviewed_run.root, "--export", "labels")
    rows = list(csv.DictReader(io.StringIO(shown)))
    assert (code, len(rows)) == (0, 160)
    assert {
        row["example_id"]: row["corrected_label"] or row["given_label"] for row in rows
    } == labels


def test_verdicts_by_keyboard_are_kept_with_who_and_when(seen: Run, browser: Any) -> None:
    axe = Path(pytest.importorskip("axe_playwright_python").__file__).parent / "axe.min.js"
    with serving("review", seen.root, "--name", "Ada", "--unchanged", "30") as (address, _):
        link, _, token = address.partition("/#")
        context = browser.new_context(viewport={"width": 320, "height": 700}, bypass_csp=True)
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(address)
        page.get_by_text("Example 1 of").wait_for()
        assert token not in page.url
        found = page.evaluate(
            f"async () => {{ {axe.read_text()}; return (await axe.run()).violations }}"
        )
        assert [one["id"] for one in found] == []
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        page.keyboard.press("m")
        page.get_by_text("Example 2 of").wait_for()
        page.keyboard.press("a")
        page.get_by_text("Example 3 of").wait_for()
        page.keyboard.press("l")
        page.locator("#right").select_option("fox")
        page.get_by_text("Example 4 of").wait_for()
        page.locator("select").first.select_option("unchanged")
        page.get_by_text("Example 1 of 30").wait_for()
        context.close()
        assert errors == []
        stranger = Client(link)
        assert stranger.ask("GET", "/state").status == 401
        assert stranger.ask("POST", "/session", {"token": "x" * 43}).status == 403
        stranger.cookie = ""
        reply = stranger.ask("POST", "/session", {"token": token})
        stranger.cookie = reply.headers["set-cookie"].partition(";")[0]
        assert "HttpOnly" in reply.headers["set-cookie"]
        state = stranger.ask("GET", "/state").content
        wrong = {"place": 0, "verdict": "label wrong", "label": "horse", "comment": ""}
        assert stranger.ask("POST", "/verdict", wrong).status == 400
        assert stranger.ask("POST", "/verdict", {**wrong, "place": 10**6}).status == 400
        assert stranger.ask("GET", "/image/0").body.startswith(b"\x89PNG")
        assert stranger.ask("GET", "/image/../../config.yaml").status == 404
        second = scotoma("review", seen.root, "--port", "0")
        assert "is being reviewed by another command" in second[2]
    rows = read_reviews(seen.path(FILE))
    assert [(row.verdict, row.label, row.by) for row in rows] == [
        ("model wrong", "", "Ada"), ("ambiguous", "", "Ada"), ("label wrong", "fox", "Ada"),
    ]  # fmt: skip
    assert {card["example_id"] for card in state["cards"]} >= {row.example_id for row in rows}
    assert all(row.at.endswith("+00:00") for row in rows)
    assert json.dumps(state).count("secret-") == len(state["cards"])
