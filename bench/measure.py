"""Runs a program and says what it took: wall time and peak resident memory.

The kernel counts a child's peak from the moment it is forked, so a parent
cannot see less than it takes itself. Whoever measures imports nothing large:
what needs numpy or onnx runs as a program of its own.
"""

import dataclasses
import os
import resource
import signal
import subprocess
import tempfile
import threading
import time

KIB = 1024


@dataclasses.dataclass
class Sample:
    seconds: float
    peak_bytes: int
    # Empty if the program ended well; else a few words on how it did not.
    failure: str = ""
    stdout: str = ""


def available_bytes():
    """Memory that programs can have without swapping."""
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * KIB
    return resource.RLIM_INFINITY


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:100] if lines else ""


def how_it_failed(code, stderr, timed_out, timeout_s):
    if timed_out:
        return f"over {timeout_s:g} s"
    if code == 0:
        return ""
    if "MemoryError" in stderr or "bad_alloc" in stderr:
        return "out of memory"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit {code}: {last_line(stderr)}".rstrip(": ")


def run(command, timeout_s, memory_bytes=None):
    """Runs it once. `memory_bytes` bounds its address space."""
    def limit():
        os.setsid()
        if memory_bytes is not None:
            resource.setrlimit(resource.RLIMIT_AS,
                               (memory_bytes, memory_bytes))

    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.perf_counter()
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=err,
                                       preexec_fn=limit)
        except OSError as error:
            return Sample(0, 0, f"cannot be run: {error.strerror}")
        timed_out = threading.Event()

        def stop():
            timed_out.set()
            os.killpg(process.pid, signal.SIGKILL)

        timer = threading.Timer(timeout_s, stop)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        stderr = err.read().decode(errors="replace")
        return Sample(seconds, usage.ru_maxrss * KIB,
                      how_it_failed(process.returncode, stderr,
                                    timed_out.is_set(), timeout_s),
                      out.read().decode(errors="replace"))
