"""The commands of a study that meet its annotators: invite, revoke, serve, erase."""

from __future__ import annotations

import json
import secrets
import sys
import time
from pathlib import Path

from scotoma.commands.shared.web_server import Listening, listen
from scotoma.errors import ConfigError
from scotoma.extras import needs
from scotoma.printable import quoted
from scotoma.study.plan import StudyFolder
from scotoma.study.store import AnswerStore, token_hash

__all__ = ["erase_annotator", "invite_annotators", "revoke_annotator", "serve_study"]

TOKEN_BYTES = 32


def invite_annotators(
    root: Path, annotator: int | None, days: int, url: str, *, as_json: bool
) -> None:
    """Give annotators a link each and print it; only its hash is kept.

    Raises:
        ScotomaError: The study or the number of the annotator cannot be used.
    """
    folder = StudyFolder(root)
    plan = folder.plan()
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"--url must begin with http:// or https://, got {quoted(url)}")
    wanted = range(1, plan.annotators + 1) if annotator is None else [annotator]
    links = {}
    with AnswerStore.opened(folder.answers_file) as store:
        store.register(plan)
        outside = store.outside()
        for number in wanted:
            folder.orders(number)  # refuses a number that has none
            if number in outside:
                raise ConfigError(
                    f"--annotator {number} answered with another tool; choose another number"
                )
            token = secrets.token_urlsafe(TOKEN_BYTES)
            store.invite(number, token_hash(token), int(time.time()) + days * 86_400)
            links[number] = f"{url.rstrip('/')}/#{token}"
    if as_json:
        sys.stdout.write(json.dumps({"version": 1, "links": links}, indent=1) + "\n")
    else:
        for number, link in links.items():
            sys.stdout.write(f"annotator {number}: {link}\n")
        sys.stderr.write(f"next: scotoma study serve {root}\n")


def revoke_annotator(root: Path, annotator: int | None) -> None:
    """Withdraw an annotator's link.

    Raises:
        ConfigError: Nobody of that number was invited.
    """
    folder = StudyFolder(root)
    folder.plan()
    if annotator is None:
        raise ConfigError("--revoke needs --annotator: whose link is withdrawn")
    with AnswerStore.opened(folder.answers_file) as store:
        if not store.revoke(annotator):
            raise ConfigError(f"annotator {annotator} was not invited; nothing is withdrawn")
    sys.stdout.write(f"the link of annotator {annotator} no longer works\n")


def serve_study(root: Path, listening: Listening) -> None:
    """Serve a study until interrupted.

    Raises:
        ScotomaError: The study, the database or the port cannot be used.
    """
    needs("starlette", "study", "scotoma study serve")
    needs("uvicorn", "study", "scotoma study serve")
    from scotoma.study.server import study_app

    folder = StudyFolder(root)
    plan = folder.plan()
    with AnswerStore.served(folder.answers_file) as store:
        store.register(plan)

        def app(port: int) -> object:
            hosts, origins = listening.names(port)
            return study_app(
                folder, store, hosts=hosts, origins=origins,
                secure=listening.secure, proxied=bool(listening.proxy),
            )  # fmt: skip

        listen(listening, app, lambda address: f"serving {root} at {address}")


def erase_annotator(root: Path, annotator: int) -> None:
    """Delete what an annotator answered, and keep that it was deleted.

    Raises:
        ScotomaError: The study or the database cannot be used.
    """
    folder = StudyFolder(root)
    folder.plan()
    with AnswerStore.opened(folder.answers_file) as store:
        if annotator not in store.invited():
            raise ConfigError(f"annotator {annotator} was not invited; nothing is deleted")
        count = store.erase(annotator)
    sys.stdout.write(f"{count:,} answers of annotator {annotator} are deleted\n")
