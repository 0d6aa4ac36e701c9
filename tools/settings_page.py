"""Writes docs/reference/settings.md from the settings; --check fails when it is stale."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from opserve_server.settings import OPTIONS, PREFIX, Settings

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/settings.md"
HEAD = f"""# Settings

For operators of a service.

Every setting of the service is an environment variable. `opserve serve` has options for the most
common ones; an option overrides its variable. A value out of bounds ends the service with exit
status 2 and one line that names the setting, the given and the allowed value. A misspelt variable,
such as `{PREFIX}DEVICS`, ends it in the same way; other variables that begin with `{PREFIX}` are
left alone. A number of bytes may have a unit: KB, MB, GB or TB (powers of 1000), or KiB, MiB, GiB
or TiB (powers of 1024), with or without the B: 256M means 256MB.

```sh
export {PREFIX}REST_ADDRESS=127.0.0.1:9090
export {PREFIX}DEVICES='["ascend910b", "ascend910b"]'
.venv/bin/opserve serve
```

Compiled kernels are cached inside the installed package or, where that is not writable, in
`$XDG_CACHE_HOME/opserve` (`~/.cache/opserve`). `NUMBA_CACHE_DIR` names another folder, and
`opserve warmup` fills it, so that no start of the service has to compile.

`make settings` generates this page, and `make check` compares it.

| variable | unit | default | meaning |
|---|---|---|---|
"""
OPTIONS_HEAD = """
| option of `opserve serve` | variable |
|---|---|
"""
UNITS = {
    "grpc_address": "host:port",
    "rest_address": "host:port",
    "tls_certificate_file": "file",
    "tls_key_file": "file",
    "client_ca_file": "file",
    "allow_plaintext": "true or false",
    "no_keys": "true or false",
    "shared_memory": "true or false",
    "log_level": "name",
    "log_format": "name",
    "store_url": "URL",
    "identity_issuers": "JSON list",
    "farm_name": "name",
    "farm_host": "name",
    "devices": "JSON list",
    "device_tags": "JSON object",
    "expected_values_folder": "folder",
}
"""Units of settings whose names do not end with one."""
SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def main() -> int:
    """Writes or compares the page; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when stale")
    check = parser.parse_args().check
    written = page()
    if not check:
        PAGE.write_text(written)
        return 0
    if PAGE.exists() and PAGE.read_text() == written:
        return 0
    print("stale: docs/reference/settings.md; run make settings")
    return 1


def page() -> str:
    """Returns the whole page."""
    options = (f"| `{option}` | `{variable(name)}` |\n" for name, option in OPTIONS.items())
    return HEAD + "".join(map(row, Settings.model_fields)) + OPTIONS_HEAD + "".join(options)


def row(name: str) -> str:
    """Returns the row of a setting."""
    meaning = (Settings.model_fields[name].description or "").replace("\n", " ")
    return f"| `{variable(name)}` | {unit(name)} | {default(name)} | {meaning} |\n"


def variable(name: str) -> str:
    """Returns the environment variable of a setting."""
    return f"{PREFIX}{name.upper()}"


def unit(name: str) -> str:
    """Returns the unit of a setting, by its name or by the ending of its name."""
    if name in UNITS:
        return UNITS[name]
    if name.endswith("_s"):
        return "seconds"
    if name.endswith("_days"):
        return "days"
    if "bytes" in name:
        return "bytes"
    return "characters" if "length" in name else "count"


def default(name: str) -> str:
    """Returns the default in the syntax of the variable; sizes also in KiB, MiB or GiB."""
    field = Settings.model_fields[name]
    if field.default_factory is not None:
        return "see its meaning"
    value: Any = field.default
    if unit(name) == "bytes":
        size_bytes = int(value)
        factor, size = next((factor, size) for factor, size in SIZES if size_bytes % factor == 0)
        return f"`{size_bytes}` ({size_bytes // factor} {size})"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


if __name__ == "__main__":
    sys.exit(main())
