"""How far two outputs of a model are apart."""

from __future__ import annotations

import json
import math
import os
from typing import Any, Tuple

# Elements compared at once: outputs may be larger than what is free.
_CHUNK = 1 << 20
# Smaller files are read instead of mapped; an empty array cannot be mapped.
_MAP_BYTES = 1 << 20


def compare_files(before: str, after: str) -> Tuple[bool, float]:
    """Whether two saved outputs of equal type and shape are the same bits, and
    the largest error relative to the largest magnitude in `before`.

    The error is infinite where one is not finite and the other not the same,
    where all of `before` is zero but `after` is not, and for strings that
    differ.
    """
    if before.endswith(".json"):
        with open(before, encoding="utf-8") as first:
            with open(after, encoding="utf-8") as second:
                equal = json.load(first) == json.load(second)
        return equal, 0.0 if equal else math.inf
    return compare_arrays(_load(before), _load(after))


def _load(path: str) -> Any:
    import numpy as np
    large = os.path.getsize(path) > _MAP_BYTES
    return np.load(path, mmap_mode="r" if large else None, allow_pickle=False)


def compare_arrays(before: Any, after: Any) -> Tuple[bool, float]:
    """The same for arrays of equal type and shape."""
    import numpy as np
    before = np.ascontiguousarray(before).reshape(-1)
    after = np.ascontiguousarray(after).reshape(-1)
    # Wide enough for the difference of any two numbers of the type.
    wide = np.float64 if before.dtype.kind == "f" else np.longdouble
    bit_equal, largest, worst = True, 0.0, 0.0
    for start in range(0, before.size, _CHUNK):
        x, y = before[start:start + _CHUNK], after[start:start + _CHUNK]
        same_bits = np.array_equal(x.view(np.uint8), y.view(np.uint8))
        bit_equal = bit_equal and same_bits
        x, y = x.astype(wide), y.astype(wide)
        finite = np.isfinite(x)
        if finite.any():
            largest = max(largest, float(np.abs(x[finite]).max()))
        if same_bits:
            continue
        equal = (x == y) | (np.isnan(x) & np.isnan(y))
        if np.any(~equal & ~(finite & np.isfinite(y))):
            worst = math.inf
        elif not equal.all():
            worst = max(worst, float(np.abs(x[~equal] - y[~equal]).max()))
    if worst == 0.0:
        return bit_equal, 0.0
    return bit_equal, worst / largest if largest > 0 else math.inf
