"""make operator NAME=my_operator: the skeleton of an operator, and what is left to do by hand."""

import argparse
import re
import sys
from pathlib import Path
from string import Template

TEMPLATE = Path(__file__).resolve().parent / "operator_template"
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
LEFT = """
Left to do in $name, until `make test` passes:
  protos/opserve/v1/operator_service.proto      its import, and in the oneof: $cls $name = N;
  kernels/opserve_kernels/operators/__init__.py "$name"
  client/opserve_client/operators/__init__.py   "$name": $cls, and its class in OperatorClass
  client/opserve_client/__init__.py             $cls, ${cls}Result
  tests/kernels/samples/__init__.py             its SAMPLES and ERROR_SAMPLES
  then: make protos, and replace every FILL IN of the new files
"""


def main() -> int:
    """Writes the skeleton; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="snake case, as the vendor names it without its prefix")
    parser.add_argument("--root", type=Path, default=TEMPLATE.parent.parent, help="repository")
    asked = parser.parse_args()
    name: str = asked.name
    if not NAME.fullmatch(name):
        print(f"name: given {name!r}, allowed snake case", file=sys.stderr)
        return 2
    files = skeleton(name)
    present = [path for path in files if (asked.root / path).exists()]
    if present:
        print(f"already there: {', '.join(map(str, present))}", file=sys.stderr)
        return 1
    for path, content in files.items():
        (asked.root / path).parent.mkdir(parents=True, exist_ok=True)
        (asked.root / path).write_text(content)
        print(f"wrote {path}")
    print(filled(LEFT, name))
    return 0


def skeleton(name: str) -> dict[Path, str]:
    """The files of an operator, relative to the repository, and what they hold."""
    templates = sorted(path for path in TEMPLATE.rglob("*.in") if path.is_file())
    return {
        Path(str(path.relative_to(TEMPLATE).with_suffix("")).replace("OPERATOR", name)): filled(
            path.read_text(), name
        )
        for path in templates
    }


def filled(text: str, name: str) -> str:
    """A template with the operator's names in it."""
    camel = "".join(part.capitalize() for part in name.split("_"))
    return Template(text).substitute(name=name, cls=camel, call=f"aclnn{camel}")


if __name__ == "__main__":
    sys.exit(main())
