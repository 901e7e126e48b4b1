"""Makes the Python package and the helpers in test/support importable."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
for folder in (ROOT / "test" / "support", ROOT / "python"):
    sys.path.insert(0, str(folder))
