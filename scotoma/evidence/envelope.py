"""Who signed it? DSSE envelopes with Ed25519 signatures by local keys."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any

from scotoma.errors import ConfigError, DataError
from scotoma.extras import needs

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )


EXTRA = "evidence"


def signed_bytes(payload_type: str, payload: bytes) -> bytes:
    r"""Encode what is signed: type and payload with their lengths, so that neither can be shifted.

    Args:
        payload_type: Media type of the payload.
        payload: The payload.

    References:
        DSSE 1.0.0, protocol.md, PAE; the example is its test vector.

    >>> signed_bytes("http://example.com/HelloWorld", b"hello world")
    b'DSSEv1 29 http://example.com/HelloWorld 11 hello world'
    """
    kind = payload_type.encode()
    return b" ".join((b"DSSEv1", b"%d" % len(kind), kind, b"%d" % len(payload), payload))


def sealed_envelope(
    payload_type: str, payload: bytes, key: Ed25519PrivateKey | None
) -> dict[str, Any]:
    """Put a payload into an envelope, signed if there is a key.

    Args:
        payload_type: Media type of the payload.
        payload: The payload.
        key: Who signs; None leaves the list of signatures empty.

    Returns:
        A DSSE envelope. `keyid`, the SHA-256 of the raw public key, is a hint and decides nothing.
    """
    signatures = []
    if key is not None:
        signature = key.sign(signed_bytes(payload_type, payload))
        signatures = [{"keyid": _key_id(key.public_key()), "sig": _base64(signature)}]
    return {"payloadType": payload_type, "payload": _base64(payload), "signatures": signatures}


def open_envelope(
    content: bytes, payload_type: str, key: Ed25519PublicKey | None, shown: str
) -> tuple[bytes, bool]:
    """Read the payload of an envelope, and check who signed it.

    Args:
        content: The envelope's JSON.
        payload_type: The type that the payload must have.
        key: Whose signature it must carry; None to read it unchecked.
        shown: What messages call the file.

    Returns:
        The payload, and whether `key` signed it.

    Raises:
        DataError: It is no such envelope, or `key` did not sign it.
    """
    try:
        envelope = json.loads(content)
        kind = envelope["payloadType"]
        payload = base64.b64decode(envelope["payload"], altchars=None, validate=True)
        signatures = [
            base64.b64decode(str(row["sig"]).replace("-", "+").replace("_", "/"), validate=True)
            for row in envelope["signatures"]
        ]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise DataError(
            f"{shown} must be a DSSE envelope, got {type(error).__name__} in its JSON; name a file "
            "that scotoma evidence wrote"
        ) from None
    if kind != payload_type:
        raise DataError(
            f"{shown} must hold {payload_type}, got {str(kind)[:60]}; name the file of the verdict"
        )
    if key is None:
        return payload, False
    if not any(_signed_by(key, one, signed_bytes(payload_type, payload)) for one in signatures):
        raise DataError(
            f"{shown} must be signed by this key, got {len(signatures)} other or broken "
            f"signature{'s' * (len(signatures) != 1)}; ask its sender for the public key, or "
            "do not trust the file"
        )
    return payload, True


def private_key(content: bytes, shown: str) -> Ed25519PrivateKey:
    """Read an Ed25519 private key.

    Args:
        content: PEM, PKCS #8, without a passphrase.
        shown: What messages call the file.

    Raises:
        ConfigError: It is no such key; nothing of it is shown.
        MissingExtra: cryptography is not installed.
    """
    serialization = _serialization("signing")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        key = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError, _unsupported()):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(
            f"--sign {shown} must be an Ed25519 private key in PEM without a passphrase, got "
            "something else; make one with: openssl genpkey -algorithm ed25519 -out key.pem"
        )
    return key


def public_key(content: bytes, shown: str) -> Ed25519PublicKey:
    """Read an Ed25519 public key.

    Args:
        content: PEM.
        shown: What messages call the file.

    Raises:
        ConfigError: It is no such key.
        MissingExtra: cryptography is not installed.
    """
    serialization = _serialization("checking a signature")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = serialization.load_pem_public_key(content)
    except (ValueError, TypeError, _unsupported()):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(
            f"--key {shown} must be an Ed25519 public key in PEM, got something else; make it "
            "from the private key with: openssl pkey -in key.pem -pubout -out key.pub"
        )
    return key


def _serialization(purpose: str) -> Any:
    return needs("cryptography.hazmat.primitives.serialization", EXTRA, purpose)


def _unsupported() -> type[Exception]:
    from cryptography.exceptions import UnsupportedAlgorithm

    return UnsupportedAlgorithm


def _signed_by(key: Ed25519PublicKey, signature: bytes, content: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, content)
    except InvalidSignature:
        return False
    return True


def _key_id(key: Ed25519PublicKey) -> str:
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
