"""make operator NAME=my_operator: writes an operator's files and its lines in other files."""

import argparse
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from string import Template

from opserve_kernels.errors import rejection

TEMPLATE = Path(__file__).resolve().parent / "operator_template"
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
LEFT = """
Left to do in $name, until `make test` passes: replace every FILL IN of the new files, the proto
first, then `make protos`; `make support` once contract.py names the profiles.
"""


def main() -> int:
    """Writes the operator and prints the remaining work; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="the vendor's name without its prefix, in snake case")
    parser.add_argument("--root", type=Path, default=TEMPLATE.parent.parent, help="repository")
    asked = parser.parse_args()
    name: str = asked.name
    if not NAME.fullmatch(name):
        print(rejection("name", given=repr(name), allowed="snake case"), file=sys.stderr)
        return 2
    files = skeleton(name)
    present = [path for path in files if (asked.root / path).exists()]
    if present:
        print(f"already there: {', '.join(map(str, present))}", file=sys.stderr)
        return 1
    edited = {path: edit((asked.root / path).read_text(), name) for path, edit in EDITS.items()}
    for path, content in (files | edited).items():
        (asked.root / path).parent.mkdir(parents=True, exist_ok=True)
        (asked.root / path).write_text(content)
        print(f"{'edited' if path in edited else 'wrote'} {path}")
    format_python([asked.root / path for path in edited if path.suffix == ".py"])
    print(filled(LEFT, name))
    return 0


def skeleton(name: str) -> dict[Path, str]:
    """Returns the texts of an operator's files by their paths in the repository."""
    templates = sorted(path for path in TEMPLATE.rglob("*.in") if path.is_file())
    return {
        Path(str(path.relative_to(TEMPLATE).with_suffix("")).replace("OPERATOR", name)): filled(
            path.read_text(), name
        )
        for path in templates
    }


def filled(text: str, name: str) -> str:
    """Fills a template with the operator's names."""
    camel = class_of(name)
    return Template(text).substitute(name=name, cls=camel, call=f"aclnn{camel}")


def class_of(name: str) -> str:
    """Returns the name of the operator's message and classes."""
    return "".join(part.capitalize() for part in name.split("_"))


def in_registry(text: str, name: str) -> str:
    """Adds the operator at the end of the registry."""
    return after(text, r"OPERATOR_NAMES = \((?:\n    \"\w+\",)+", f'\n    "{name}",')


def in_request(text: str, name: str) -> str:
    """Adds the operator's import and its field of the oneof to operator_service.proto."""
    _, _, request = text.partition("message GetWorkspaceSizeRequest {")
    taken = set(map(int, re.findall(r"= (\d+);", request.partition("\n}")[0])))
    number = next(number for number in range(1, len(taken) + 2) if number not in taken)
    field = f"\n    {class_of(name)} {name} = {number};"
    text = after(text, r"oneof operator \{(?:\n    [^\n}]+)+", field)
    line = f'import "opserve/v1/{name}.proto";'
    lines = sorted({*re.findall(r'^import "opserve.*$', text, flags=re.MULTILINE), line})
    return re.sub(r'(^import "opserve.*\n)+', "\n".join(lines) + "\n", text, flags=re.MULTILINE)


def in_client_table(text: str, name: str) -> str:
    """Adds the operator at the end of the client's table of operators."""
    camel = class_of(name)
    text = after(text, r"OperatorClass = \((?:\n    [^\n)]+)+", f"\n    | type[{camel}]")
    text = after(text, r"OPERATORS: [^{]+\{(?:\n    [^\n}]+)+", f'\n    "{name}": {camel},')
    return imported(text, f"from opserve_client.operators.{name} import {camel}")


def in_client(text: str, name: str) -> str:
    """Adds the operator's two public names to the client."""
    camel = class_of(name)
    names = f"{camel}, {camel}Result"
    text = after(text, r"__all__ = \[", f'\n    "{camel}",\n    "{camel}Result",')
    return imported(text, f"from opserve_client.operators.{name} import {names}")


def after(text: str, pattern: str, added: str) -> str:
    """Inserts an addition after the only match of a pattern."""
    (found,) = re.finditer(pattern, text)
    return text[: found.end()] + added + text[found.end() :]


def imported(text: str, line: str) -> str:
    """Adds an import to a module; ruff sorts it later."""
    place = text.index("\nfrom opserve_client.operators.")
    return f"{text[:place]}\n{line}{text[place:]}"


def format_python(paths: list[Path]) -> None:
    """Sorts imports and `__all__`, and breaks long lines, as `make lint` requires."""
    ruff = [sys.executable, "-m", "ruff"]
    configured = ["--quiet", "--config", str(TEMPLATE.parent.parent / "pyproject.toml")]
    for command in (["check", "--fix", "--select", "I,RUF022"], ["format"]):
        subprocess.run([*ruff, *command, *configured, *map(str, paths)], check=True)


EDITS: Mapping[Path, Callable[[str, str], str]] = {
    Path("kernels/opserve_kernels/operators/__init__.py"): in_registry,
    Path("protos/opserve/v1/operator_service.proto"): in_request,
    Path("client/opserve_client/operators/__init__.py"): in_client_table,
    Path("client/opserve_client/__init__.py"): in_client,
}
"""Files with a line or two for each operator."""


if __name__ == "__main__":
    sys.exit(main())
