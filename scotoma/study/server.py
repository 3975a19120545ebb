"""Where do annotators answer? A page, its state, its images, and one way to save an answer."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from scotoma.errors import ScotomaError
from scotoma.study.guard import Guard, RateLimit
from scotoma.study.pages import COMMON, SHARED, STYLE, page
from scotoma.study.plan import StudyFolder, StudyPlan
from scotoma.study.session import checked_event, consent_text, page_state
from scotoma.study.store import AnswerStore

__all__ = ["NOT_FOUND", "cookie_name", "json_content", "page_routes", "routed", "study_app"]

NOT_FOUND = {"error": "not found"}


def study_app(
    folder: StudyFolder,
    store: AnswerStore,
    *,
    hosts: Sequence[str],
    origins: Sequence[str],
    secure: bool,
    proxied: bool = False,
) -> Guard:
    """Build the server of a study. It opens plan, items and orders, and never the key.

    Args:
        folder: The study.
        store: Its answers.
        hosts: Values of the header Host that are its own.
        origins: Its own origins.
        secure: Whether people reach it by HTTPS.
        proxied: Whether they come through a proxy.
    """
    plan = folder.plan()
    items = pl.read_parquet(folder.items_file, glob=False)
    images: Mapping[str, bytes] = dict(items.select("id", "image").iter_rows())
    labels: Mapping[str, Sequence[str]] = dict(items.select("id", "labels").iter_rows())
    served = _Served(plan, folder, store, images, labels, secure)
    routes = [
        *page_routes(SHARED / "study.html", SHARED / "study.js"),
        Route("/invitation", served.invitation, methods=["POST"]),
        Route("/session", served.session, methods=["POST"]),
        Route("/state", served.state),
        Route("/image/{item}", served.image),
        Route("/answer", served.answer, methods=["POST"]),
    ]
    return Guard(routed(routes), hosts, origins, proxied=proxied)


def cookie_name(served: str) -> str:
    """Name of the cookie of one study or review: browsers share cookies of all ports of a host.

    >>> cookie_name("a") != cookie_name("b")
    True
    """
    return f"scotoma-{hashlib.sha256(served.encode()).hexdigest()[:16]}"


def routed(routes: Sequence[Route]) -> Starlette:
    """An application that answers an unknown path as it does an unknown item."""

    async def not_found(request: Request, error: Exception) -> Response:
        return JSONResponse(NOT_FOUND, 404)

    return Starlette(routes=list(routes), exception_handlers={404: not_found})


def page_routes(content: Path, script: Path) -> list[Route]:
    """Routes to a page, its style and its scripts, which are read once.

    Args:
        content: What the page shows, see `scotoma.study.pages.page`.
        script: Its own script, beside the common one.
    """
    files = {
        "/": (page(content, [script.name]), "text/html; charset=utf-8"),
        "/study.css": (STYLE.read_bytes(), "text/css"),
        "/common.js": (COMMON.read_bytes(), "text/javascript"),
        f"/{script.name}": (script.read_bytes(), "text/javascript"),
    }

    def route(path: str, data: bytes, kind: str) -> Route:
        async def send(_: Request) -> Response:
            return Response(data, headers={"content-type": kind})

        return Route(path, send)

    return [route(path, data, kind) for path, (data, kind) in files.items()]


class _Served:
    """What the routes of a study share."""

    def __init__(
        self,
        plan: StudyPlan,
        folder: StudyFolder,
        store: AnswerStore,
        images: Mapping[str, bytes],
        labels: Mapping[str, Sequence[str]],
        secure: bool,
    ) -> None:
        self._plan, self._store, self._cookie = plan, store, cookie_name(plan.sha256)
        self._images, self._labels, self._secure = images, labels, secure
        self._failures = RateLimit(burst=5, per_s=5 / 60)  # tokens that open nothing, an address
        self._orders = folder.every_order()

    async def _holder(self, request: Request) -> tuple[int, bool] | JSONResponse:
        """The annotator whose token a request brings, or why there is none."""
        address = request.client.host if request.client else ""
        if not self._failures.allows(address, take=False):
            headers = {"retry-after": "60"}
            return JSONResponse({"error": "too many failed links"}, 429, headers)
        content = await json_content(request)
        token = content.get("token") if isinstance(content, dict) else None
        found = None
        if isinstance(token, str):
            found = await run_in_threadpool(self._store.holder, token)
        if found is None:
            self._failures.allows(address)
            return JSONResponse({"error": "this link is not valid"}, 403)
        return found

    async def invitation(self, request: Request) -> Response:
        """What a person reads before they consent."""
        found = await self._holder(request)
        if isinstance(found, JSONResponse):
            return found
        return JSONResponse({"consented": found[1], "consent": consent_text(self._plan)})

    async def session(self, request: Request) -> Response:
        """Take a token and a consent, and give a session."""
        found = await self._holder(request)
        if isinstance(found, JSONResponse):
            return found
        content = await json_content(request)
        if content.get("consent") is not True:
            return JSONResponse({"error": "consent is missing"}, 400)
        session = secrets.token_urlsafe(32)
        await run_in_threadpool(self._store.consent, found[0], session)
        response = JSONResponse({"ok": True})
        response.set_cookie(
            self._cookie, session, httponly=True, samesite="strict", secure=self._secure, path="/"
        )
        return response

    async def _annotator(self, request: Request) -> int | None:
        session = request.cookies.get(self._cookie)
        if session is None:
            return None
        # In a thread: it waits for answers that are being written, and the server must not.
        return await run_in_threadpool(self._store.session, session)

    async def state(self, request: Request) -> Response:
        """All that the page shows."""
        annotator = await self._annotator(request)
        if annotator is None:
            return JSONResponse({"error": "open your link again"}, 401)
        events = await run_in_threadpool(self._store.events, annotator)
        state = page_state(self._plan, self._orders[annotator], self._labels, events)
        return JSONResponse(state | {"annotator": annotator})

    async def image(self, request: Request) -> Response:
        """One image of this annotator's; any other id is answered alike."""
        annotator = await self._annotator(request)
        item = request.path_params["item"]
        if annotator is None:
            return JSONResponse({"error": "open your link again"}, 401)
        orders = self._orders[annotator]
        if item not in self._images or item not in {*orders.practice, *orders.main, *orders.guess}:
            return JSONResponse(NOT_FOUND, 404)
        return Response(self._images[item], media_type="image/png")

    async def answer(self, request: Request) -> Response:
        """Save one answer; the reply says that it is on the disk."""
        annotator = await self._annotator(request)
        if annotator is None:
            return JSONResponse({"error": "open your link again"}, 401)
        try:
            event = checked_event(
                await json_content(request), annotator, self._plan, self._orders[annotator]
            )
            await run_in_threadpool(self._store.append, [event])
        except ScotomaError as error:
            return JSONResponse({"error": str(error)}, 400)
        return JSONResponse({"saved": event.key})


async def json_content(request: Request) -> Any:
    """The decoded body; an empty object where it is no JSON."""
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError):
        return {}
