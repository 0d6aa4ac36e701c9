"""Failed connections over loopback, with real servers: the error says what happened and the fix."""

import datetime as dt
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import grpc
import pytest
import trustme
import uvicorn
from starlette.types import Receive, Scope, Send

from opserve_client import AsyncClient, Client, OpserveError, ServiceUnreachable, TlsFiles

EXPIRED = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
Place = tuple[str, bool]
"""Protocol of a port, and whether it uses TLS."""


@dataclass(frozen=True)
class Certificate:
    """A certificate in files, and the file of its authority."""

    authority: Path
    chain: Path
    key: Path

    @classmethod
    def made_in(cls, folder: Path, *names: str, ends: dt.datetime | None = None) -> "Certificate":
        folder.mkdir()
        made = cls(folder / "authority.pem", folder / "chain.pem", folder / "key.pem")
        authority = trustme.CA()
        issued = authority.issue_cert(*names, not_after=ends)
        authority.cert_pem.write_to_path(made.authority)
        issued.private_key_pem.write_to_path(made.key)
        made.chain.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
        return made


@contextmanager
def grpc_port(certificate: Certificate | None) -> Generator[int]:
    server = grpc.server(ThreadPoolExecutor(1))
    if certificate is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        files = (certificate.key.read_bytes(), certificate.chain.read_bytes())
        credentials = grpc.ssl_server_credentials([files])
        port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


async def no_page(scope: Scope, receive: Receive, send: Send) -> None:
    del scope, receive
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b"no page"})


@contextmanager
def rest_port(certificate: Certificate | None) -> Generator[int]:
    config = uvicorn.Config(
        no_page,
        host="127.0.0.1",
        port=0,
        lifespan="off",
        log_config=None,
        ssl_certfile=None if certificate is None else certificate.chain,
        ssl_keyfile=None if certificate is None else certificate.key,
    )
    server, listener = uvicorn.Server(config), config.bind_socket()
    listener.listen()  # connections of this moment on are accepted when the server has started
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    folder = tmp_path_factory.mktemp("certificates")
    return Certificate.made_in(folder / "good", "localhost", "127.0.0.1")


@pytest.fixture(scope="module")
def ports(certificate: Certificate) -> Iterator[Mapping[Place, int]]:
    with ExitStack() as stack:
        yield {
            ("grpc", False): stack.enter_context(grpc_port(None)),
            ("grpc", True): stack.enter_context(grpc_port(certificate)),
            ("rest", False): stack.enter_context(rest_port(None)),
            ("rest", True): stack.enter_context(rest_port(certificate)),
        }


async def errors_at(address: str, tls: TlsFiles | None = None) -> list[OpserveError]:
    """The errors of both clients."""
    with Client(address, tls=tls) as client, pytest.raises(OpserveError) as blocking:
        client.list_devices()
    async with AsyncClient(address, tls=tls) as other:
        with pytest.raises(OpserveError) as awaited:
            await other.list_devices()
    return [blocking.value, awaited.value]


@pytest.mark.parametrize(
    "place", [("grpc", False), ("grpc", True), ("rest", False), ("rest", True)]
)
@pytest.mark.parametrize("scheme", ["grpc", "grpcs", "http", "https"])
async def test_an_address_of_the_wrong_kind_is_answered_with_the_right_one(
    ports: Mapping[Place, int], certificate: Certificate, scheme: str, place: Place
) -> None:
    address = f"{scheme}://localhost:{ports[place]}"
    is_rest, secure = scheme.startswith("http"), scheme.endswith("s")
    tls = TlsFiles(ca=certificate.authority) if secure else None
    right = {
        ("grpc", False): "grpc",
        ("grpc", True): "grpcs",
        ("rest", False): "http",
        ("rest", True): "https",
    }[place]
    for error in await errors_at(address, tls):
        if right == scheme:  # another program answers there
            assert ("404" if is_rest else "UNIMPLEMENTED") in error.message
            continue
        assert type(error) is ServiceUnreachable
        assert f"{right}://localhost:{ports[place]}" in error.message
        assert error.message.startswith(f"{address}: the port ")
        assert ("does not use TLS" in error.message) is (secure and not place[1])
        assert ("as a port with TLS does" in error.message) is (place[1] and not secure)
        assert "is the service running" not in error.message


@pytest.mark.parametrize("place", [("grpc", True), ("rest", True)])
@pytest.mark.parametrize("scheme", ["grpcs", "https"])
@pytest.mark.parametrize("of_the_system", [False, True])
async def test_an_untrusted_certificate_is_named_with_the_option_that_trusts_it(
    ports: Mapping[Place, int], tmp_path: Path, scheme: str, place: Place, *, of_the_system: bool
) -> None:
    other = TlsFiles(ca=Certificate.made_in(tmp_path / "other", "localhost").authority)
    address = f"{scheme}://localhost:{ports[place]}"
    for error in await errors_at(address, None if of_the_system else other):
        assert type(error) is ServiceUnreachable
        assert "no authority that this client trusts signed the service's" in error.message
        assert "--ca FILE or tls=TlsFiles(ca=FILE)" in error.message


@pytest.mark.parametrize(
    ("names", "ends", "cause"),
    [
        (["farm.example"], None, "certificate is for another name"),
        (["localhost"], EXPIRED, "certificate is not valid at this time"),
    ],
)
async def test_a_certificate_of_another_name_or_time_is_named(
    tmp_path: Path, names: list[str], ends: dt.datetime | None, cause: str
) -> None:
    wrong = Certificate.made_in(tmp_path / "wrong", *names, ends=ends)
    tls = TlsFiles(ca=wrong.authority)
    with grpc_port(wrong) as by_grpc, rest_port(wrong) as by_rest:
        for address in (f"grpcs://localhost:{by_grpc}", f"https://localhost:{by_rest}"):
            for error in await errors_at(address, tls):
                assert cause in error.message


@pytest.mark.parametrize(
    ("address", "likely"),
    [
        ("farm", "farm:50051"),
        ("grpc://farm", "farm:50051"),
        ("grpcs://farm", "farm:50051"),
        ("[::1]", "[::1]:50051"),
        ("farm:", "farm:50051"),
        ("farm:abc", "farm:50051"),
        ("farm:0", "farm:50051"),
        ("farm:99999", "farm:50051"),
        ("50051", "127.0.0.1:50051"),
        (":50051", "127.0.0.1:50051"),
    ],
)
def test_a_grpc_address_without_a_port_is_rejected_with_the_default_one(
    address: str, likely: str
) -> None:
    with pytest.raises(
        OpserveError, match=r"address does not accept .*; it accepts a host and a port"
    ) as error:
        Client(address)
    assert error.value.allowed == f"a host and a port, such as {likely}"


@pytest.mark.parametrize(("scheme", "port"), [("http", "80"), ("https", "443")])
async def test_a_failed_url_without_a_port_names_the_port_that_was_called(
    scheme: str, port: str
) -> None:
    for error in await errors_at(f"{scheme}://nowhere.invalid"):
        assert "cannot resolve the host name of nowhere.invalid" in error.message
        assert f"the client called port {port}" in error.message
        assert f"{scheme}://nowhere.invalid:8080 by default" in error.message


async def test_an_unknown_host_and_a_closed_port_are_distinguished() -> None:
    for address in ("grpc://nowhere.invalid:1", "http://nowhere.invalid:1"):
        for error in await errors_at(address):
            assert "cannot resolve the host name of nowhere.invalid:1" in error.message
    for address in ("grpc://127.0.0.1:1", "http://127.0.0.1:1"):
        for error in await errors_at(address):
            assert "is the service running there (`opserve serve`)?" in error.message
