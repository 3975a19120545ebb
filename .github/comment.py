"""Write the verdict of an audit into one comment of a pull request, which later runs replace.

Reads FOLDER (of the audit), PAGE (its address), TOKEN, MATRIX, and what GitHub sets for a step.
"""

import json
import os
import re
import urllib.error
import urllib.request
from pathlib import Path

MOST_LINES = 60


def main() -> None:
    """Replace the comment of this job, or write it; a pull request of a fork lets nobody write."""
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    number = event.get("pull_request", {}).get("number")
    if number is None:
        print("no pull request, no comment")
        return
    here = "/".join(os.environ[name] for name in ("GITHUB_WORKFLOW", "GITHUB_JOB", "MATRIX"))
    mark = f"<!-- scotoma {here} -->"
    summary = Path(os.environ["FOLDER"], "summary.md").read_text(encoding="utf-8").splitlines()
    kept = summary if len(summary) <= MOST_LINES else [*summary[:MOST_LINES], "", "..."]
    page = os.environ.get("PAGE", "")
    link = [f"[The page, with every table]({page}), as a file to unpack."] if page else []
    body = "\n".join([mark, *kept, "", *link])
    comments = f"repos/{os.environ['GITHUB_REPOSITORY']}/issues"
    try:
        own = _first_with(mark, f"{comments}/{number}/comments?per_page=100")
        if own is None:
            _ask("POST", f"{comments}/{number}/comments", {"body": body})
        else:
            _ask("PATCH", f"{comments}/comments/{own}", {"body": body})
    except urllib.error.HTTPError as error:
        print(
            f"::warning::the comment must be written with a token that may write to pull requests, "
            f"got {error.code} {error.reason}; give the job `pull-requests: write`"
        )


def _first_with(mark: str, address: str | None) -> int | None:
    """The id of the first comment that begins with a mark."""
    while address:
        found, headers = _ask("GET", address)
        for comment in found:
            if comment["body"].startswith(mark):
                return int(comment["id"])
        following = re.search(r'<([^>]+)>; rel="next"', headers.get("Link", ""))
        address = following and following[1]
    return None


def _ask(method: str, address: str, content: object = None):
    url = address if "://" in address else f"{os.environ['GITHUB_API_URL']}/{address}"
    request = urllib.request.Request(
        url,
        None if content is None else json.dumps(content).encode(),
        {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ['TOKEN']}",
            "X-GitHub-Api-Version": "2022-11-28",
        },
        method=method,
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer), answer.headers


if __name__ == "__main__":
    main()
