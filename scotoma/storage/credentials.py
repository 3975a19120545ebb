"""Is a value a credential, and how is a text shown without any?

Every message, log and file that may hold an address goes through `masked`; what others can read is
refused where `looks_secret`.
"""

from __future__ import annotations

import os
import re
from pathlib import PurePath

MASK = "***"
SHORTEST = 8  # characters of a value in the environment: shorter ones would hide words
SCHEME = r"(?:\b[A-Za-z][\w+.-]*)?://"  # damaged, perhaps: what follows is an authority still
PORT = r"\d+(?:[/\s?#'\",;)\]]|$)"
NAMED = (
    r"(?:password|passwd|passphrase|secret|token|credential|signature|"
    r"(?:api|access|private|secret|signing)[_-]?key)"
)
# Names of parameters of a query, beside those that are secret as names of variables.
PARAMETERS = re.compile(
    r"(?:^|_)(?:SIG|SIGNATURE|CODE|PIN|OTP|SESSION|SESSIONID|SID|SE|NONCE|STATE)(?:_|$)"
)
# A word or a number, with what a sentence may put after it; a token mixes letters and digits.
PLAIN = re.compile(r"(?:[A-Za-z]+(?:[-_.][A-Za-z]+)*|[\d.:-]+)?['\"`),.:;>\]}]*")


def _query_shown(match: re.Match[str]) -> str:
    """A query as it is if none of its parameters may be secret, else nothing of it."""
    parameters = [parameter.partition("=") for parameter in match[2].split("&")]
    plain = all(
        re.fullmatch(r"[\w.-]+", name)
        and equals
        and PLAIN.fullmatch(value)
        and not _is_secret_name(name)
        and not PARAMETERS.search(name.upper().replace("-", "_"))
        for name, equals, value in parameters
    )
    return match[0] if plain else f"{match[1]}?{MASK}"


# Pattern and what takes its place; in this order.
FORMS = [
    (re.compile(pattern, flags), shown)
    for pattern, shown, flags in (
        (r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*-----|\Z)", MASK, re.DOTALL),
        # A password may hold a space; what follows a host's colon is a port.
        (rf"({SCHEME})[^\s/@:?#]*:(?!{PORT})[^\n]*@", rf"\1{MASK}@", 0),
        # A question mark before an @ is in a password, or begins a query: neither is shown.
        (rf"({SCHEME})[^\s?@]*\?\S*@\S*", rf"\1{MASK}", 0),
        # Up to the last @: a password may hold a slash, a colon or an @.
        (rf"({SCHEME})\S*@", rf"\1{MASK}@", 0),
        (rf"({SCHEME}[^\s?]*)\?(?!\*\*\*)(\S+)", _query_shown, 0),
        (rf"({SCHEME}[^\s?]*?[#;])[^\s?=]*=\S*", rf"\1{MASK}", 0),
        # Without a scheme; not an alias of a registered model, nor the digest of an image.
        (
            r"(?<![\w/.@:*-])(?!models:/)[^\s:/@'\"<>()\[\]{}=,;]+:(?!//)\S+@(?!sha256:)(?=[\w\[.])",
            f"{MASK}@",
            0,
        ),
        (
            r"\b(authorization['\"]?\s*[:=]\s*['\"]?)(?!\*\*\*)\S+(?: +[^\s'\"]+)?",
            rf"\1{MASK}",
            re.I,
        ),
        (r"\b(bearer|basic)\s+(?!\*\*\*)(?=\S*[\d=_.-])[^\s'\"]{6,}", rf"\1 {MASK}", re.I),
        (rf"(\b[\w-]*{NAMED}[\w-]*=)(?!\*\*\*)[^\s&]+", rf"\1{MASK}", re.I),
        (r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", MASK, 0),
        (r"\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?", MASK, 0),
        (r"\b(?:gh[opsru]_|github_pat_|glpat-|xox[abeoprs]-|hf_|sk-)[\w-]{16,}", MASK, 0),
    )
]  # fmt: skip
# In names of variables: anywhere, or as a word of its own.
ANYWHERE = re.compile(
    r"SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|TOKEN(?!IZ)|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY"
)
WORDS = re.compile(r"(?:^|_)(?:PASS|PWD|KEYS?|PW|PAT|SAS|AUTH|AUTHORIZATION|COOKIE|JWT)(?:_|$)")
# Folders, and how MLflow proves who it is: a way, and no secret.
PUBLIC = ("PWD", "OLDPWD", "MLFLOW_TRACKING_AUTH")


def masked(text: str) -> str:
    """A text without the credentials in it, and without those of the environment.

    What is masked: user and password of an address, with or without a scheme; its query, unless all
    its names are harmless and all its values words or numbers; its fragment and parameters that
    have a value; the values of headers and of `password=` and its
    like; private keys; tokens of a well-known form; values of variables that `looks_secret` names.

    >>> masked("postgresql://mlflow:s3cret@db:5432/mlflow")
    'postgresql://***@db:5432/mlflow'
    >>> masked("https://host/path?token=abc&x=1"), masked("got anna:s3cret@host:5000")
    ('https://host/path?***', 'got ***@host:5000')
    >>> masked("sqlite:///mlflow.db?timeout=30&mode=rw")
    'sqlite:///mlflow.db?timeout=30&mode=rw'
    """
    values = {
        value
        for name, value in os.environ.items()
        if len(value) >= SHORTEST and not PurePath(value).is_absolute() and _is_secret_name(name)
    }
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, MASK)
    return _without_forms(text)


def looks_secret(name: str, value: str) -> bool:
    """Whether a variable is one that nobody else may read: by its name, or by its value.

    >>> looks_secret("DB_PASS", "x"), looks_secret("PROXY", "http://anna:s3cret@proxy:3128")
    (True, True)
    >>> looks_secret("MLFLOW_TRACKING_AUTH", "kubernetes")
    False
    >>> looks_secret("TOKENIZERS_PARALLELISM", "false"), looks_secret("PROXY", "http://proxy:3128")
    (False, False)
    """
    return _is_secret_name(name) or _without_forms(value) != value


def _is_secret_name(name: str) -> bool:
    # dbPassword and db-password as DB_PASSWORD
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[.-]", "_", name).upper()
    return name not in PUBLIC and bool(ANYWHERE.search(words) or WORDS.search(words))


def _without_forms(text: str) -> str:
    for pattern, shown in FORMS:
        text = pattern.sub(shown, text)
    return text
