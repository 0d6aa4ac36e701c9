"""The vendors' pages. Their licence allows no copy here, so their tests run only beside them."""

import os
from pathlib import Path

FOLDER = Path(
    os.environ.get("OPSERVE_SEEDS", Path(__file__).parents[1].resolve().parent / "shared" / "seeds")
)
