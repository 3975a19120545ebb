"""Where does a team walk through changed examples? A page, its data, its images, its verdicts."""

from __future__ import annotations

import datetime
import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from scotoma.errors import ScotomaError
from scotoma.review.verdicts import Review, Reviews, checked_review, last_reviews
from scotoma.study.guard import Guard
from scotoma.study.server import NOT_FOUND, cookie_name, json_content, page_routes, routed
from scotoma.study.session import comment_line

__all__ = ["review_app"]

PAGE = Path(__file__).with_name("page")


def review_app(
    cards: Sequence[Mapping[str, Any]],
    about: Mapping[str, Any],
    reviews: Reviews,
    image: Callable[[str], bytes],
    *,
    token: str,
    reviewer: str,
    hosts: Sequence[str],
    origins: Sequence[str],
    secure: bool,
    proxied: bool = False,
) -> Guard:
    """Build the server of a review.

    Args:
        cards: What the page shows of each example; `example_id`, `variant` and more.
        about: Run, variant, classes and what else the page says once.
        reviews: Where verdicts are kept.
        image: Finds the image of an example, PNG; empty where there is none.
        token: Opens the page once it is in the address behind `#`.
        reviewer: Who reviews, kept with each verdict.
        hosts: Values of the header Host that are its own.
        origins: Its own origins.
        secure: Whether people reach it by HTTPS.
        proxied: Whether they come through a proxy.
    """
    served = _Served(cards, about, reviews, image, token, reviewer, secure)
    routes = [
        *page_routes(PAGE / "review.html", PAGE / "review.js"),
        Route("/session", served.session, methods=["POST"]),
        Route("/state", served.state),
        Route("/image/{place:int}", served.image),
        Route("/verdict", served.verdict, methods=["POST"]),
    ]
    return Guard(routed(routes), hosts, origins, proxied=proxied)


class _Served:
    def __init__(
        self,
        cards: Sequence[Mapping[str, Any]],
        about: Mapping[str, Any],
        reviews: Reviews,
        image: Callable[[str], bytes],
        token: str,
        reviewer: str,
        secure: bool,
    ) -> None:
        self._cards, self._about, self._reviews = cards, about, reviews
        self._image, self._token, self._reviewer = image, token, reviewer
        self._cookie = cookie_name(token)
        self._secure, self._session = secure, secrets.token_urlsafe(32)

    def _entered(self, request: Request) -> bool:
        cookie = request.cookies.get(self._cookie, "")
        return hmac.compare_digest(cookie.encode(), self._session.encode())

    async def session(self, request: Request) -> Response:
        """Take the token of the link, and give a session."""
        content = await json_content(request)
        token = content.get("token") if isinstance(content, dict) else None
        if not isinstance(token, str) or not hmac.compare_digest(
            token.encode("utf-8", "replace"), self._token.encode()
        ):
            return JSONResponse({"error": "this link is not valid"}, 403)
        response = JSONResponse({"ok": True})
        response.set_cookie(
            self._cookie, self._session,
            httponly=True, samesite="strict", secure=self._secure, path="/",
        )  # fmt: skip
        return response

    async def state(self, request: Request) -> Response:
        """All that the page shows, with the last verdict of each example."""
        if not self._entered(request):
            return JSONResponse({"error": "open the link again"}, 401)
        last = last_reviews(self._reviews.rows)
        shown = {
            one: {"verdict": row.verdict, "label": row.label, "comment": row.comment, "by": row.by}
            for one, row in last.items()
        }
        cards = [{**card, "review": shown.get(card["example_id"])} for card in self._cards]
        return JSONResponse({"about": self._about, "cards": cards})

    async def image(self, request: Request) -> Response:
        """One image, by its place in the list."""
        if not self._entered(request):
            return JSONResponse({"error": "open the link again"}, 401)
        place = request.path_params["place"]
        data = b""
        if place < len(self._cards):
            data = await run_in_threadpool(self._image, self._cards[place]["example_id"])
        if not data:
            return JSONResponse(NOT_FOUND, 404)
        return Response(data, media_type="image/png")

    async def verdict(self, request: Request) -> Response:
        """Keep one verdict; the reply says that it is on the disk."""
        if not self._entered(request):
            return JSONResponse({"error": "open the link again"}, 401)
        content = await json_content(request)
        fields = {"place", "verdict", "label", "comment"}
        if not isinstance(content, dict) or content.keys() != fields:
            return JSONResponse({"error": "a verdict has place, verdict, label and comment"}, 400)
        place = content.pop("place")
        if type(place) is not int or not 0 <= place < len(self._cards):
            return JSONResponse({"error": "place is none of this list"}, 400)
        if not all(isinstance(value, str) for value in content.values()):
            return JSONResponse({"error": "verdict, label and comment are texts"}, 400)
        content["comment"] = comment_line(content["comment"])
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        card = self._cards[place]
        review = Review(card["example_id"], card["variant"], **content, by=self._reviewer, at=now)
        try:
            checked_review(review, tuple(self._about["classes"]))
            self._reviews.add(review)
        except ScotomaError as error:
            return JSONResponse({"error": str(error)}, 400)
        return JSONResponse({"saved": place})
