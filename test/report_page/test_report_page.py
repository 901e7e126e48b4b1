"""The pages of --html in Chromium: page.test.mjs opens the reports that are made
here, estimate.test.mjs the estimates. Node.js runs them, with playwright-core of
tools/report.

    ONNX_MEMOPT_UPDATE_DOCS=1 python -m pytest test/report_page

takes the picture of the documentation anew; REPORT_SHOTS=FOLDER takes more of
them to look at.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess

import onnx
import pytest

import report_models
from memopt_program import PROGRAM, ROOT

TIMEOUT_SECONDS = 300
PICTURE = ROOT / "docs/images/report.png"
MODEL = ROOT / "test/models/mobilenetv3.onnx"
BERT = ROOT / "test/models/bert.onnx"
TRANSFORMER = ROOT / "test/estimate/recorded/hf_gpt2.onnx"
# What ./dev test has installed must not be skipped.
REQUIRED = os.environ.get("ONNX_MEMOPT_REQUIRE_BROWSER") == "1"
LONG = 20_000


def need(found: bool, what: str) -> None:
    if found:
        return
    if REQUIRED:
        pytest.fail(what)
    pytest.skip(what)


def run(*arguments, cwd: pathlib.Path) -> None:
    done = subprocess.run([PROGRAM, *map(str, arguments), "-q"], cwd=cwd,
                          capture_output=True, text=True, check=False,
                          timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stderr


def with_extras(page: pathlib.Path, target: pathlib.Path) -> None:
    """The same report with what other versions add."""
    text = page.read_text(encoding="utf-8")
    head, mark, rest = text.partition('id="report">')
    body, end, tail = rest.partition("</script>")
    report = json.loads(body)
    plain = {"enable_cpu_mem_arena": True, "enable_mem_pattern": True,
             "enable_mem_reuse": True, "execution_order": "DEFAULT",
             "disabled_optimizers": []}
    best = {**plain, "enable_mem_reuse": False,
            "execution_order": "PRIORITY_BASED",
            "disabled_optimizers": ["CommonSubexpressionElimination"]}
    report["session_options"] = {"recommended": best, "candidates": [
        {"options": options, "first_peak_bytes": peak,
         "steady_peak_bytes": peak + 4096}
        for options, peak in ((plain, 1 << 22), (best, 1 << 21))]}
    report["time_ratio"] = 1.25
    report["budget"] = {"bytes": 1 << 20, "reached_bytes": 1 << 21,
                        "met": False, "reason": "<i>held</i> by node x"}
    report["checkpoints"] = [{"first": "<b>kept</b>", "last": "end", "nodes": 3,
                              "bytes": 4096}]
    report["pareto"] = [{"peak_bytes": 1 << 22, "added_time": 0},
                        {"peak_bytes": 1 << 21, "added_time": 0.125}]
    body = json.dumps(report).replace("<", "\\u003c")
    target.write_text(head + mark + body + end + tail, encoding="utf-8")


def make_estimates(folder: pathlib.Path) -> None:
    shutil.copy(TRANSFORMER, folder / "gpt2.onnx")
    run("estimate", "gpt2.onnx", "--batch", 64, "--precision", "fp16", "--gpu",
        "all", "--checkpoint", "sqrt", "--html", "estimate.html", cwd=folder)
    onnx.save(report_models.with_lengths(), folder / "lengths.onnx")
    run("estimate", "lengths.onnx", "--dim", "length=64", "--dp", 4, "--zero",
        2, "--pp", 2, "--micro-batches", 4, "--memory", "1GiB", "--max-batch",
        "--html", "estimate_many.html", cwd=folder)
    run("estimate", "gpt2.onnx", "--inference", "--html",
        "estimate_serving.html", cwd=folder)
    run("estimate", "hostile.onnx", "--html", "estimate_hostile.html",
        cwd=folder)


@pytest.fixture(scope="module", name="pages")
def made_pages(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("pages")
    shutil.copy(MODEL, folder / "mobilenetv3.onnx")
    done = subprocess.run(
        [PROGRAM, "mobilenetv3.onnx", "out.onnx", "--html", "network.html",
         "-q"], cwd=folder, capture_output=True, text=True, check=False,
        timeout=TIMEOUT_SECONDS)
    need("has no HTML report" not in done.stderr, done.stderr.strip())
    assert done.returncode == 0, done.stderr
    # What `./dev run --html` shows.
    shutil.copy(BERT, folder / "bert.onnx")
    run("bert.onnx", "bert.out.onnx", "--dim", "batch=8", "--dim", "seq=256",
        "--external-data", "reference", "--html", "bert.html", cwd=folder)
    onnx.save(report_models.branches(), folder / "branches.onnx")
    run("branches.onnx", "-o", "branches.out.onnx", "--passes",
        "drop-dead,reorder", "--html", "branches.html", cwd=folder)
    onnx.save(report_models.hostile(), folder / "hostile.onnx")
    run("hostile.onnx", "-o", "hostile.out.onnx", "--html", "hostile.html",
        cwd=folder)
    onnx.save(report_models.long_chain(LONG), folder / "long.onnx")
    run("long.onnx", "-o", "long.out.onnx", "--passes", "drop-dead", "--html",
        "long.html", cwd=folder)
    (folder / "empty.onnxtxt").write_text(
        '<ir_version: 10, opset_import: ["" : 18]>\n'
        "g (float[4] x) => (float[4] x) {}\n", encoding="utf-8")
    run("empty.onnxtxt", "--analyze", "--html", "empty.html", cwd=folder)
    run("mobilenetv3.onnx", "--analyze", "--html", "analyzed.html",
        cwd=folder)
    with_extras(folder / "network.html", folder / "extras.html")
    make_estimates(folder)
    return folder


def test_the_file_is_whole_and_closed(pages):
    """Without a browser: nothing in it names a network or ends an element."""
    for path in sorted(pages.glob("*.html")):
        text = path.read_text(encoding="utf-8")
        assert text.count("<script") == 2 and text.count("</script>") == 2
        assert text.rstrip().endswith("</html>")
        assert "\u2028" not in text and "\u2029" not in text
        policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
        assert "default-src 'none'" in policy[1]
        assert "unsafe" not in policy[1] and "http" not in policy[1]
        # Of the two addresses, none is fetched: a name space, and none other.
        assert not re.search(r'(src|href)="?(https?:)?//', text)


def test_the_report_inside_is_the_json_report(pages):
    text = (pages / "hostile.html").read_text(encoding="utf-8")
    inside = json.loads(text.partition('id="report">')[2]
                        .partition("</script>")[0])
    beside = json.loads((pages / "hostile.out.json").read_text())
    assert inside == beside
    names = [tensor["name"] for tensor in inside["tensors"]]
    assert any("</script>" in name for name in names)


def test_the_estimate_inside_is_the_json_estimate(pages):
    run("estimate", "hostile.onnx", "--json", "hostile.estimate.json",
        cwd=pages)
    text = (pages / "estimate_hostile.html").read_text(encoding="utf-8")
    inside = json.loads(text.partition('id="report">')[2]
                        .partition("</script>")[0])
    assert inside == json.loads((pages / "hostile.estimate.json").read_text())


def test_in_chromium(pages):
    node = shutil.which("node")
    need(node is not None, "node: no such program")
    need((ROOT / "tools/report/node_modules/playwright-core").is_dir(),
         "playwright-core is missing: npm ci in tools/report")
    chromium = shutil.which("chromium")
    need(chromium is not None, "chromium: no such program")
    environment = {**os.environ, "REPORT_PAGES": str(pages),
                   "CHROMIUM": chromium}
    if os.environ.get("ONNX_MEMOPT_UPDATE_DOCS") == "1":
        environment["REPORT_PICTURE"] = str(PICTURE)
    done = subprocess.run(
        [node, "--test", "--test-concurrency=1", "--test-reporter=tap",
         ROOT / "test/report_page/page.test.mjs",
         ROOT / "test/report_page/estimate.test.mjs"], capture_output=True,
        text=True, check=False, timeout=TIMEOUT_SECONDS, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"^# pass (\d+)", done.stdout, re.M)[1]) >= 22
    assert re.search(r"^# skipped 0", done.stdout, re.M)
