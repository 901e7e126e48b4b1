"""Freed memory goes back to the system, in a process of its own."""

import platform
import subprocess
import sys

import pytest

CHILD = """
import re, sys
import numpy as np
import onnx_memopt

def resident_mib():
    with open("/proc/self/status") as file:
        return int(re.search(r"VmRSS:\\s+(\\d+)", file.read()).group(1)) / 1024

if sys.argv[1] == "give back":
    assert onnx_memopt.give_back_freed_memory()
before = resident_mib()
np.ones(1 << 20)  # 8 MiB that come and go: from now on malloc keeps so much
parts = [np.ones(1 << 17) for _ in range(64)]
last = parts[-1]
del parts
print(round(resident_mib() - before))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="is of glibc")
def test_freed_memory_is_kept_unless_told_otherwise():
    def kept(mode):
        done = subprocess.run([sys.executable, "-c", CHILD, mode],
                              stdout=subprocess.PIPE, text=True, check=True)
        return int(done.stdout)
    assert kept("as it is") >= 60  # MiB of 64
    assert kept("give back") <= 4
