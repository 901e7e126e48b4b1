"""What the figures were measured with."""

import datetime
import os
import platform
import subprocess

import peers


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def memory_gib():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024 ** 3


def describe(program):
    """A dictionary of strings."""
    version = subprocess.run([str(program), "--version"], check=True,
                             capture_output=True, text=True).stdout.strip()
    packages = ("onnx", "onnxsim", "onnx-tool", "numpy")
    return {
        "date": datetime.datetime.now(datetime.timezone.utc)
                .strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": f"{len(os.sched_getaffinity(0))} cores, {cpu_model()}",
        "memory": f"{memory_gib():.0f} GiB",
        "load": "{:.1f}, {:.1f}, {:.1f}".format(*os.getloadavg()),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "onnx-memopt": version,
        **{package: peers.version_of(package) or "not installed"
           for package in packages},
    }
