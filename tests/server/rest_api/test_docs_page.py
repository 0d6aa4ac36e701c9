"""The page at /docs: all that it loads is the service's own."""

import re

import httpx2


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
