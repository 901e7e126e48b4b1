"""docs/python.md has the API as it is.

ONNX_MEMOPT_UPDATE_DOCS=1 writes it there.
"""

import os
import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"
BEGIN, END = "<!-- api -->\n", "<!-- /api -->\n"


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


def test_code_in_the_page_runs(model_path, monkeypatch):
    """Each block marked `python` is a program, run where model.onnx is."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx_ir")
    monkeypatch.chdir(model_path.parent)
    model_path.rename("model.onnx")
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(),
                        re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 3
    for block in blocks:
        if "torch" not in block:
            exec(compile(block, str(PAGE), "exec"), {})
