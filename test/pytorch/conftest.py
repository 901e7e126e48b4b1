"""Tests that need PyTorch or what builds on it; `./dev test-torch` runs them. Where
a package is not installed, its tests are skipped."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
