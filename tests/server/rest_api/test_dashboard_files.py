"""The dashboard's files: served to everyone, compressed, and complete without another host."""

import gzip
import re

import httpx2

from opserve_server.dashboard.files import INDEX, static_files

HOME = "/dashboard/"
VENDORED = "vendor/"
LINE_LIMIT = 250
_REFERENCES = re.compile(r'(?:from|import|src=|href=) ?"(\./)?(\w[\w./-]*)"')


async def test_the_root_leads_to_the_page(client: httpx2.AsyncClient) -> None:
    for path in ("/", "/dashboard"):
        answer = await client.get(path)
        assert (answer.status_code, answer.headers["location"]) == (307, HOME)
    page = await client.get(HOME)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.content == static_files()[INDEX].body


async def test_a_page_may_load_nothing_from_another_host(client: httpx2.AsyncClient) -> None:
    headers = (await client.get(HOME)).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert not policy.keys() & {"script-src", "style-src", "connect-src", "img-src"}
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    for path, file in static_files().items():
        if not path.startswith(VENDORED):
            found = re.findall(rb"https?://(?!www\.w3\.org/2000/svg)", file.body)
            assert not found, path


async def test_every_file_that_a_file_names_is_served(client: httpx2.AsyncClient) -> None:
    named = set[str]()
    for path, file in static_files().items():
        if path.startswith(VENDORED) or path.endswith((".css", ".svg")):
            continue
        folder, _, _ = path.rpartition("/")
        for _, reference in _REFERENCES.findall(file.body.decode()):
            named.add(f"{folder}/{reference}".removeprefix("/"))
    assert named | {INDEX} == static_files().keys()
    for path in named:
        answer = await client.get(f"{HOME}{path}")
        assert answer.status_code == 200, path
        assert answer.content == static_files()[path].body


async def test_a_browser_keeps_a_file_until_it_changes(client: httpx2.AsyncClient) -> None:
    first = await client.get(f"{HOME}app.js")
    assert first.headers["cache-control"] == "no-cache"
    again = await client.get(f"{HOME}app.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = await client.get(f"{HOME}app.js", headers={"if-none-match": 'W/"0123"'})
    assert other.status_code == 200
    assert len({file.etag for file in static_files().values()}) == len(static_files())


async def test_a_file_is_compressed_for_clients_that_accept_it(client: httpx2.AsyncClient) -> None:
    packed = await client.get(f"{HOME}app.js", headers={"accept-encoding": "gzip"})
    plain = await client.get(f"{HOME}app.js", headers={"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept-Encoding"
    assert "content-encoding" not in plain.headers
    assert packed.content == plain.content
    file = static_files()["app.js"]
    assert gzip.decompress(file.packed) == file.body
    assert len(file.packed) < len(file.body) / 2


async def test_no_other_file_is_served(client: httpx2.AsyncClient) -> None:
    for path in ("VENDORED.md", "vendor/SHA256SUMS", "..%2fapp.py", "vendor/..%2f..%2fapp.py"):
        assert (await client.get(f"{HOME}{path}")).status_code == 404, path


def test_modules_of_the_pages_are_short() -> None:
    for path, file in static_files().items():
        if path.endswith(".js") and not path.startswith(VENDORED):
            assert file.body.count(b"\n") < LINE_LIMIT, path
