"""The page at /docs: all that it loads is the service's own, and unchanged."""

import re
from hashlib import sha256
from importlib.resources import files

import httpx2

FOLDER = files("opserve_server.rest_api").joinpath("docs_page")


def test_the_vendored_files_are_those_whose_digests_are_listed() -> None:
    lines = FOLDER.joinpath("SHA256SUMS").read_text().splitlines()
    listed = {name: digest for digest, name in (line.split() for line in lines)}
    assert {"LICENSE", "NOTICE", "swagger-ui-bundle.js", "swagger-ui.css"} <= listed.keys()
    found = {name: sha256(FOLDER.joinpath(name).read_bytes()).hexdigest() for name in listed}
    assert found == listed


async def test_the_page_loads_files_of_the_service_alone(client: httpx2.AsyncClient) -> None:
    page = await client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"] == "default-src 'self'"
    assert re.findall(r"<script(?! src=)", page.text) == [], "no inline script"
    loaded = re.findall(r'(?:src|href)="([^"]*)"', page.text)
    assert len(loaded) == 3
    for path in loaded:
        assert path.startswith("/docs/")
        assert (await client.get(path)).status_code == 200, path
    assert '"/openapi.json"' in (await client.get("/docs/init.js")).text


async def test_no_other_file_is_served(client: httpx2.AsyncClient) -> None:
    for name in ("SHA256SUMS", "..", "%2e%2e%2fapp.py", "README.md"):
        answer = await client.get(f"/docs/{name}")
        assert answer.status_code in {404, 307}, name
