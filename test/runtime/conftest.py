"""Makes the helpers in test/support and the bench's measuring importable."""

import pathlib
import sys

TEST = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TEST / "support"))
sys.path.insert(0, str(TEST.parent / "bench"))
