"""The vendor's C++ programs. Their licence allows no copy here: tests run only beside them.

The folder has samples/*.cpp and unit_tests/*.cpp, as in the vendor's repositories.
"""

import os
from pathlib import Path

FOLDER = Path(os.environ.get("OPSERVE_VENDOR_PROGRAMS", os.devnull))
