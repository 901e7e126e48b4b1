"""Order and peak on random graphs, predicted and as ONNX Runtime has them."""

import graphs
import ort_memory
import pytest
from predict import MIB, OPTIONS, differs, predict

ORDERED = 60
MEASURED = 6


@pytest.mark.parametrize("order", ["DEFAULT", "PRIORITY_BASED"])
def test_order_is_exact(bin_dir, tmp_path, order):
    paths = [graphs.save(graphs.RandomGraph(seed, 24, 64).build(),
                         tmp_path / f"{seed}.onnx") for seed in range(ORDERED)]
    text = "order=default" if order == "DEFAULT" else "order=priority"
    real = ort_memory.orders(paths, {"execution_order": order})
    wrong = [seed for seed, path in enumerate(paths)
             if predict(bin_dir, path, text)[0]["order"] != real[seed]]
    assert not wrong
    # The two orders, and the file's, are not all the same anyway.
    assert any(names != sorted(names, key=lambda n: int(n[1:]))
               for names in real) or order == "PRIORITY_BASED"


@pytest.mark.parametrize("name", OPTIONS)
def test_peak(bin_dir, tmp_path, name):
    text, options = OPTIONS[name]
    wrong = []
    for seed in range(MEASURED):
        path = graphs.save(graphs.RandomGraph(100 + seed, 24, 2048).build(),
                           tmp_path / f"{seed}.onnx")
        found = predict(bin_dir, path, text)[0]
        peaks = ort_memory.measure(path, options)["peaks"]
        for what, index in (("first", 0), ("steady", -1)):
            line = differs(found[what], peaks[index], 0.03, 2 * MIB)
            if line:
                wrong.append(f"seed {100 + seed}, {what}: {line}")
    assert not wrong


CASES = {
    "scan": lambda: graphs.scan(0),
    "scan along another axis": lambda: graphs.scan(1),
    "scan with state": graphs.scan_with_state,
    "loop": graphs.loop,
    "branch": graphs.branch,
    "held buffer": graphs.held_buffer,
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["bare", "default"])
def test_peak_of_a_structure(bin_dir, tmp_path, case, name):
    text, options = OPTIONS[name]
    path = graphs.save(CASES[case](), tmp_path / "model.onnx")
    found = predict(bin_dir, path, text)[0]
    assert found["complete"]
    peaks = ort_memory.measure(path, options)["peaks"]
    assert not differs(found["first"], peaks[0], 0.03, 2 * MIB)
    assert not differs(found["steady"], peaks[-1], 0.03, 2.5 * MIB)
