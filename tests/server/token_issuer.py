"""A token issuer of a test's own: its keys, its tokens, and its documents over HTTP on loopback."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt import PyJWK
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from opserve_server.issuers import DISCOVERY, unknown_issuer

ISSUER = "https://token.actions.githubusercontent.com"
AUDIENCE = "https://opserve.example"
REPOSITORY = "farm/kernels"

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@cache
def private_key(key_id: str) -> PrivateKey:
    """A key by its id: an RSA key where the id begins with "rsa", else one on P-256."""
    if key_id.startswith("rsa"):
        return rsa.generate_private_key(65537, 2048)
    return ec.generate_private_key(ec.SECP256R1())


def public_key(key_id: str) -> dict[str, Any]:
    """The JSON Web Key of a key."""
    key = private_key(key_id)
    if isinstance(key, rsa.RSAPrivateKey):
        document = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    else:
        document = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {**document, "kid": key_id, "use": "sig"}


def token(issuer: str, key_id: str = "first", *, now: float, **claims: object) -> str:
    """A token of an issuer, valid for five minutes, as of GitHub; None removes a claim."""
    members = {
        "iss": issuer,
        "aud": AUDIENCE,
        "sub": f"repo:{REPOSITORY}:ref:refs/heads/main",
        "repository": REPOSITORY,
        "ref": "refs/heads/main",
        "iat": int(now),
        "nbf": int(now),
        "exp": int(now) + 300,
        **claims,
    }
    given = {name: value for name, value in members.items() if value is not None}
    algorithm = "RS256" if key_id.startswith("rsa") else "ES256"
    return jwt.encode(given, private_key(key_id), algorithm=algorithm, headers={"kid": key_id})


class FixedKeys:
    """Keys of issuers without a network; counts how often one is used.

    Attributes:
        used: Calls of `key`.
        watched: Issuers whose keys it has.
    """

    def __init__(self) -> None:
        self.used = 0
        self.watched: list[str] = []

    def watch(self, issuers: Sequence[str]) -> None:
        """Has the keys of these issuers."""
        self.watched = list(issuers)

    def key(self, issuer: str, key_id: str) -> PyJWK:
        """The key of that id, of every watched issuer."""
        self.used += 1
        if issuer not in self.watched:
            raise unknown_issuer(issuer)
        document = public_key(key_id)
        return PyJWK(document, "RS256" if document["kty"] == "RSA" else "ES256")


@dataclass
class TokenIssuer:
    """An issuer that serves documents.

    Attributes:
        url: Its URL, the claim iss.
        key_ids: Keys of its JSON Web Key Set.
        documents: Answers by path in place of its own: status and body.
        requests: Paths of the requests that arrived.
        hold: Answers wait for it.
    """

    url: str
    key_ids: list[str] = field(default_factory=lambda: ["first"])
    documents: dict[str, tuple[str, bytes]] = field(default_factory=dict[str, tuple[str, bytes]])
    requests: list[str] = field(default_factory=list[str])
    hold: asyncio.Event = field(default_factory=asyncio.Event)

    def answer(self, path: str) -> tuple[str, bytes]:
        """Status, with further headers, and body of a request."""
        if path in self.documents:
            return self.documents[path]
        if path == DISCOVERY:
            return "200 OK", encoded({"issuer": self.url, "jwks_uri": f"{self.url}/keys"})
        if path == "/keys":
            return "200 OK", encoded({"keys": [public_key(one) for one in self.key_ids]})
        return "404 Not Found", b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one request of a connection."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split()[1].decode()
            self.requests.append(path)
            await self.hold.wait()
            status, body = self.answer(path)
            length = f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            writer.write(f"HTTP/1.1 {status}\r\n{length}".encode() + body)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the service has closed the connection
        finally:
            writer.close()


def encoded(document: Mapping[str, object]) -> bytes:
    """A document as JSON."""
    return json.dumps(document).encode()


@asynccontextmanager
async def serving_issuer(context: ssl.SSLContext | None = None) -> AsyncGenerator[TokenIssuer]:
    """An issuer on a free port of loopback, with TLS where a context is given."""
    issuer = TokenIssuer(url="")
    issuer.hold.set()
    server = await asyncio.start_server(issuer.serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    issuer.url = f"{'http' if context is None else 'https'}://127.0.0.1:{port}"
    try:
        yield issuer
    finally:
        issuer.hold.set()
        server.close()
        await server.wait_closed()
