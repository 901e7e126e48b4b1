"""What keeps time and memory small on large models."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("ONNX_MEMOPT_BIN_DIR")
                   or ROOT / "build" / "release" / "bin")
PROGRAM = BIN / "onnx-memopt"
MIB = 1024 ** 2

pytestmark = pytest.mark.skipif(not PROGRAM.exists(),
                                reason=f"{PROGRAM} is not built")


def model_of(initializers):
    """y = x + w for each weight w of [1, columns] elements, in a chain."""
    columns = initializers[0].dims[-1]
    nodes = [helper.make_node("Add", [f"y{i}", w.name], [f"y{i + 1}"])
             for i, w in enumerate(initializers)]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT,
                                          [1, columns])
            for name in ("y0", f"y{len(nodes)}")]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], initializers)
    return helper.make_model(graph,
                             opset_imports=[helper.make_opsetid("", 18)])


def external(name, columns, offset):
    tensor = TensorProto(name=name, dims=[1, columns],
                         data_type=TensorProto.FLOAT,
                         data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "m.data"), ("offset", offset),
                       ("length", 4 * columns)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


# A weight that is smaller than the pieces in which files are read, and one
# that ends inside a piece.
@pytest.mark.parametrize("size_bytes", [200 * 1024, 5 * MIB // 2])
def test_zeros_that_are_not_stored_equal_zeros_that_are(tmp_path, size_bytes):
    model = model_of([external(name, size_bytes // 4, i * size_bytes)
                      for i, name in enumerate(["hole", "stored", "other"])])
    onnx.save(model, tmp_path / "m.onnx")
    with open(tmp_path / "m.data", "wb") as data:
        data.seek(size_bytes)
        data.write(bytes(size_bytes))
        # The same first, middle and last bytes, and one that differs.
        other = bytearray(size_bytes)
        other[size_bytes // 3] = 1
        data.write(other)
    out = tmp_path / "out.onnx"
    subprocess.run([PROGRAM, tmp_path / "m.onnx", "-o", out, "-q",
                    "--passes", "share-initializers"], check=True)
    graph = onnx.load(out, load_external_data=False).graph
    assert [w.name for w in graph.initializer] == ["hole", "other"]
    assert [node.input[1] for node in graph.node] == ["hole", "hole", "other"]


def test_weights_in_the_file_are_not_held_in_memory(tmp_path):
    columns = MIB
    # Equal, so that all of each is compared.
    weights = [TensorProto(name=f"w{i}", dims=[1, columns],
                           data_type=TensorProto.FLOAT,
                           raw_data=bytes(4 * columns)) for i in range(24)]
    onnx.save(model_of(weights), tmp_path / "m.onnx")
    # A parent as large as this process would hide what its child takes.
    script = ("import sys; sys.path.insert(0, sys.argv[1]); import measure\n"
              "sample = measure.run(sys.argv[2:], 60)\n"
              "print(sample.failure or sample.peak_bytes)\n")
    result = subprocess.run(
        [sys.executable, "-c", script, ROOT / "bench", PROGRAM,
         tmp_path / "m.onnx", "--analyze", "-q"],
        check=True, capture_output=True, text=True)
    # Of 96 MiB of weights; the program itself takes some 16.
    assert int(result.stdout) < 60 * MIB


def laid_out(report):
    """The report as it is to be printed: its tables with a row a line, and its
    profile with a column a line."""
    tables = ["nodes", "inner_nodes", "tensors"]
    head = {key: report[key] for key in report
            if key not in [*tables, "profile"]}
    text = json.dumps(head, indent=1, ensure_ascii=False)[:-2]
    for table in tables:
        rows = [json.dumps(row, ensure_ascii=False, separators=(",", ":"))
                for row in report[table]]
        body = "".join(f"\n  {row}," for row in rows)[:-1]
        text += f',\n "{table}": [{body}' + ("\n ]" if rows else "]")
    before = profile_laid_out(report["profile"]["before"])
    return (text + f',\n "profile": {{\n  "before": {before},'
            '\n  "after": null\n }\n}\n')


def profile_laid_out(profile):
    text = f'{{\n   "arena_bytes": {profile["arena_bytes"]}'
    for table in ("steps", "buffers"):
        columns = [
            f'\n    "{name}": '
            + json.dumps(column, ensure_ascii=False, separators=(",", ":"))
            for name, column in profile[table].items()]
        text += f',\n   "{table}": {{{",".join(columns)}\n   }}'
    return text + "\n  }"


@pytest.mark.parametrize("name", ["plain", "two\nlines", '"', "\u00e9"])
def test_the_report_is_laid_out_as_one_document(tmp_path, name):
    weight = TensorProto(name=name, dims=[1, 4], data_type=TensorProto.FLOAT,
                         raw_data=bytes(16))
    onnx.save(model_of([weight]), tmp_path / "m.onnx")
    text = subprocess.run(
        [PROGRAM, tmp_path / "m.onnx", "--analyze", "--json", "-"],
        check=True, capture_output=True).stdout.decode()
    report = json.loads(text)
    assert name in [tensor["name"] for tensor in report["tensors"]]
    assert laid_out(report) == text


def test_a_report_without_nodes_is_laid_out_alike(tmp_path):
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    graph = helper.make_graph([], "g", [info], [info])
    onnx.save(helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)]),
        tmp_path / "m.onnx")
    text = subprocess.run(
        [PROGRAM, tmp_path / "m.onnx", "--analyze", "--json", "-"],
        check=True, capture_output=True).stdout.decode()
    report = json.loads(text)
    assert report["nodes"] == []
    assert laid_out(report) == text


def test_a_graph_that_is_too_large_to_search_is_not_split(tmp_path):
    """The search takes time with the square of the nodes."""
    nodes = [helper.make_node("Relu", [f"y{i}"], [f"y{i + 1}"])
             for i in range(10_001)]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 4096])
            for name in ("y0", f"y{len(nodes)}")]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:])
    onnx.save(helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)]),
        tmp_path / "m.onnx")
    done = subprocess.run(
        [PROGRAM, "m.onnx", "--passes=split", "-o", "out.onnx", "--json", "-",
         "-q"], cwd=tmp_path, capture_output=True, check=True, timeout=60)
    split, = json.loads(done.stdout)["passes"]
    assert not split["changed"]
    assert "up to 10000 nodes, this one has 10001" in split["remarks"][0]
