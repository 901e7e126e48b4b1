"""The pages that use the package are true of it.

docs/python.md has the API as it is; ONNX_MEMOPT_UPDATE_DOCS=1 writes it there.
"""

import os
import pathlib
import sysconfig

import pytest

from doc_runner import (DOCS, ROOT, Failure, name, prepare, read, run_page,
                        uses_package)

PAGE = ROOT / "docs" / "python.md"
BEGIN, END = "<!-- api -->\n", "<!-- /api -->\n"
PAGES = [path for path in DOCS
         if any(uses_package(block) and not block.not_run
                for block in read(path).blocks)]


def test_the_api_is_as_documented():
    from python_api import render
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN)
    shown, _, tail = rest.partition(END)
    rendered = render()
    if os.environ.get("ONNX_MEMOPT_UPDATE_DOCS"):
        PAGE.write_text(head + BEGIN + rendered + END + tail)
        return
    assert shown == rendered, "run it with ONNX_MEMOPT_UPDATE_DOCS=1"


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_pages_that_use_the_package(path, tmp_path):
    """From top to end, with the program of the wheel."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx_ir")
    prepare(tmp_path)
    scripts = pathlib.Path(sysconfig.get_path("scripts"))
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1",
                   "PATH": os.pathsep.join([str(scripts),
                                            os.environ["PATH"]])}
    try:
        run_page(path, tmp_path, environment)
    except Failure as failure:
        pytest.fail(str(failure))


def test_there_are_such_pages():
    assert {name(path) for path in PAGES} >= {
        "docs/python.md", "docs/story_shipping.md", "docs/verify.md"}
