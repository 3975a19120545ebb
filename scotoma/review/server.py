"""Where does a team walk through changed examples? One small server on this machine."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import json
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from scotoma.errors import ConfigError, ScotomaError
from scotoma.review.verdicts import Review, Reviews, checked_review, last_reviews
from scotoma.study.pages import page
from scotoma.study.questions import comment_line

HOST = "127.0.0.1"
PAGE = Path(__file__).with_name("page") / "review.html"
MOST_BYTES = 4096
HEADERS = {
    "content-security-policy": "frame-ancestors 'none'",  # the page itself holds the rest
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
}
FIELDS = {"place", "verdict", "label", "comment"}


def review_app(
    cards: Sequence[Mapping[str, Any]],
    about: Mapping[str, Any],
    reviews: Reviews,
    image: Callable[[str], bytes],
    *,
    token: str,
    reviewer: str,
) -> Starlette:
    """Build the server of a review.

    Args:
        cards: What the page shows of each example; `example_id`, `variant` and more.
        about: Run, variant, classes and what else the page says once.
        reviews: Where verdicts are kept.
        image: Finds the image of an example, PNG; empty where there is none.
        token: Opens the page once it is in the address behind `#`.
        reviewer: Who reviews, kept with each verdict.
    """
    whole = page(PAGE, loads="img-src 'self' data:; connect-src 'self'")
    session = secrets.token_urlsafe(32)
    # Browsers share cookies of all ports of a host, so that each review has a name of its own.
    cookie = f"scotoma-{hashlib.sha256(token.encode()).hexdigest()[:16]}"

    def refuse_strangers(request: Request) -> None:
        given = request.cookies.get(cookie, "")
        if not hmac.compare_digest(given.encode(), session.encode()):
            raise HTTPException(401, "open the link again")

    async def home(_: Request) -> Response:
        return _Reply(whole, media_type="text/html")

    async def enter(request: Request) -> Response:
        content = await _content(request)
        given = content.get("token") if isinstance(content, dict) else None
        if not isinstance(given, str) or not hmac.compare_digest(
            given.encode("utf-8", "replace"), token.encode()
        ):
            raise HTTPException(403, "this link is not valid")
        reply = _json({"ok": True})
        reply.set_cookie(cookie, session, httponly=True, samesite="strict", path="/")
        return reply

    async def state(request: Request) -> Response:
        refuse_strangers(request)
        last = last_reviews(reviews.rows)
        shown = {
            one: {"verdict": row.verdict, "label": row.label, "comment": row.comment, "by": row.by}
            for one, row in last.items()
        }
        rows = [{**card, "review": shown.get(card["example_id"])} for card in cards]
        return _json({"about": about, "cards": rows})

    async def picture(request: Request) -> Response:
        refuse_strangers(request)
        place = request.path_params["place"]
        data = b""
        if place < len(cards):
            data = await run_in_threadpool(image, cards[place]["example_id"])
        if not data:
            raise HTTPException(404, "not found")
        return _Reply(data, media_type="image/png")

    async def verdict(request: Request) -> Response:
        """Keep one verdict; the reply says that it is on the disk."""
        refuse_strangers(request)
        content = await _content(request)
        if not isinstance(content, dict) or content.keys() != FIELDS:
            raise HTTPException(400, "a verdict has place, verdict, label and comment")
        place = content.pop("place")
        if type(place) is not int or not 0 <= place < len(cards):
            raise HTTPException(400, "place is none of this list")
        if not all(isinstance(value, str) for value in content.values()):
            raise HTTPException(400, "verdict, label and comment are texts")
        content["comment"] = comment_line(content["comment"])
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        card = cards[place]
        review = Review(card["example_id"], card["variant"], **content, by=reviewer, at=now)
        try:
            checked_review(review, tuple(about["classes"]))
            reviews.add(review)
        except ScotomaError as error:
            raise HTTPException(400, str(error)) from error
        return _json({"saved": place})

    async def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _json({"error": error.detail}, error.status_code)

    return Starlette(
        routes=[
            Route("/", home),
            Route("/session", enter, methods=["POST"]),
            Route("/state", state),
            Route("/image/{place:int}", picture),
            Route("/verdict", verdict, methods=["POST"]),
        ],
        # A page of another site whose name leads here gets nothing.
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])],
        exception_handlers={HTTPException: refused},
    )


class _Reply(Response):
    """A response with the headers that all have."""

    def __init__(self, content: bytes, status_code: int = 200, *, media_type: str) -> None:
        super().__init__(content, status_code, headers=HEADERS, media_type=media_type)


def _json(content: Any, status: int = 200) -> JSONResponse:
    return JSONResponse(content, status, headers=HEADERS)


async def _content(request: Request) -> Any:
    """The decoded body of a request from the own page; an empty object where it is no JSON."""
    get = request.headers.get
    if get("origin") != f"http://{get('host')}":
        raise HTTPException(403, "only from its own page")
    if get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "only application/json")
    length = get("content-length", "")  # the server holds the body to it
    if not (length.isascii() and length.isdecimal()) or int(length) > MOST_BYTES:
        raise HTTPException(413, f"at most {MOST_BYTES:,} bytes")
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError):
        return {}


def serve(app: Starlette, port: int, message: Callable[[str], None]) -> None:
    """Serve on this machine until interrupted.

    Args:
        app: From `review_app`.
        port: Port; 0 takes a free one.
        message: Takes the address once it is listened on.

    Raises:
        ConfigError: The port is taken.
    """
    import uvicorn

    # With the protocol named, connections send small answers at once (TCP_NODELAY).
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((HOST, port))
            taken.listen()
        except OSError as error:
            raise ConfigError(
                f"port {port} of {HOST} cannot be listened on: {error.strerror}; give another "
                "--port"
            ) from error
        message(f"http://{HOST}:{taken.getsockname()[1]}")
        config = uvicorn.Config(
            app, lifespan="off", ws="none", log_config=None, access_log=False, server_header=False
        )
        uvicorn.Server(config).run(sockets=[taken])
