"""The Trainer of the Python package, with steps that the program made."""

import json
import os
import pathlib
import sys

import numpy as np
import onnx
import pytest

import train_step
from memopt_program import ROOT, SHARED
from test_dropout import deep_model

sys.path.insert(0, str(ROOT / "python"))
from onnx_memopt import OptionError  # noqa: E402
from onnx_memopt.training import Trainer  # noqa: E402

SLOW = os.environ.get("ONNX_MEMOPT_SLOW") == "1"


def trainer(model, folder, *flags, **arguments):
    begin = folder / "start.onnx"
    step = train_step.make_step(model, folder, "--initial-state", begin, *flags)
    return Trainer(model, step=step, start=begin, **arguments)


@pytest.fixture(name="deep")
def deep_training(tmp_path):
    model, _ = deep_model(tmp_path)

    def make(**arguments):
        return trainer(model, tmp_path, "--loss", "mse", "--optimizer", "adam",
                       "--dim", "batch=16", learning_rate=1e-3, **arguments)
    return make


@pytest.mark.parametrize("flags,arena,order", [
    ([], True, "DEFAULT"),
    (["--session", "bare"], False, "DEFAULT"),
    (["--session", "bare", "--order", "file"], False, "PRIORITY_BASED")])
def test_the_session_is_the_one_of_the_plan(flags, arena, order, tmp_path):
    model, _ = deep_model(tmp_path)
    made = trainer(model, tmp_path, "--loss", "mse", "--dim", "batch=16", *flags)
    made.fit(batches(1), progress=False)
    options = made._session.get_session_options()
    assert options.enable_cpu_mem_arena is arena
    assert options.enable_mem_pattern is arena
    assert options.execution_order.name == order


def batches(count, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(16, 32)), rng.normal(size=(16, 32)))
            for _ in range(count)]


def test_a_resumed_training_is_equal_bit_for_bit(deep, tmp_path):
    data = batches(6)
    whole = deep(seed=5)
    losses = whole.fit(data, progress=False)
    first = deep(seed=5)
    first.fit(data[:3], progress=False)
    first.save(tmp_path / "state.npz")
    second = deep()  # the seed is saved, too
    second.load(tmp_path / "state.npz")
    assert second.steps == 3
    assert second.fit(data[3:], progress=False) == losses[3:]
    for name, value in whole.state.items():
        np.testing.assert_array_equal(second.state[name], value)
    other = deep(seed=6)
    assert other.fit(data[:1], progress=False) != losses[:1]


def test_what_fit_shows_and_gives(deep, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)  # not installed
    rates, epochs = [], []
    run = deep()
    run.learning_rate = lambda steps: rates.append(steps) or 1e-3
    losses = run.fit(lambda epoch: batches(2, epoch), epochs=2,
                     each_epoch=epochs.append)
    assert rates == [0, 1, 2, 3] and epochs == [0, 1]
    assert run.losses == losses and run.steps == 4
    shown = capsys.readouterr().err
    assert "epoch 2/2: 2/2 steps, loss " in shown


def test_the_trained_model_has_the_trained_weights(deep, tmp_path):
    run = deep()
    run.fit(batches(2), progress=False)
    run.write_model(tmp_path / "trained.onnx")
    trained = onnx.load(tmp_path / "trained.onnx")
    onnx.checker.check_model(trained, full_check=True)
    before = onnx.load(tmp_path / "deep.onnx")
    assert trained.graph.node == before.graph.node
    weights = train_step.initializers(tmp_path / "trained.onnx")
    start = train_step.initializers(tmp_path / "deep.onnx")
    assert list(weights) == list(start)
    for name, value in weights.items():
        if name in run.state:
            np.testing.assert_array_equal(value, run.state[name])
            assert (value != start[name]).any()


def test_what_does_not_fit_is_said(deep, tmp_path):
    run = deep()
    x, target = batches(1)[0]
    for batch, reason in [
            ((x,), "expected x, target, not 1 tensors"),
            ({"x": x}, 'it has no "target"'),
            ({"x": x, "target": target, "y": x}, 'no input "y"')]:
        with pytest.raises(OptionError, match=reason):
            run.step(batch)
    np.savez(tmp_path / "odd.npz", w0=x)
    with pytest.raises(OptionError, match="of another step"):
        run.load(tmp_path / "odd.npz")
    state = dict(run.state)
    state["w3"] = state["w3"][:1]
    np.savez(tmp_path / "odd.npz", **state)
    with pytest.raises(OptionError, match=r'"w3" is float32\[1, 32\], not'):
        run.load(tmp_path / "odd.npz")
    with pytest.raises(OptionError, match="give both or none"):
        Trainer("m.onnx", step="s.onnx")
    with pytest.raises(OptionError, match="loss: the step is made already"):
        Trainer("m.onnx", step="s.onnx", start="b.onnx", loss="mse")


def accuracy(model: pathlib.Path, images, labels, batch) -> float:
    """Of the trained model, with the statistics that it has learned."""
    trained = onnx.load(model)
    for node in trained.graph.node:
        if node.op_type == "BatchNormalization":
            del node.output[1:]
            for attribute in node.attribute:
                if attribute.name == "training_mode":
                    attribute.i = 0
    del trained.graph.value_info[:]
    shape = trained.graph.input[0].type.tensor_type.shape
    shape.dim[0].dim_value = batch  # as the step had it
    session = train_step.session(trained.SerializeToString())
    name = session.get_inputs()[0].name
    right = 0
    for i in range(0, len(images), batch):
        part = images[i:i + batch]
        padded = np.concatenate([part, images[:batch - len(part)]])
        found = session.run(None, {name: padded})[0][:len(part)]
        right += int((found.argmax(1) == labels[i:i + batch]).sum())
    return right / len(images)


@pytest.mark.skipif(not SLOW, reason="takes minutes: ONNX_MEMOPT_SLOW=1")
def test_the_residual_network_learns_digits(tmp_path):
    """scikit-learn's digits, with checkpoints within a budget."""
    datasets = pytest.importorskip("sklearn.datasets")
    source = SHARED / "training" / "resnet_bn.onnx"
    if not source.is_file():
        pytest.skip(f"{source}: not there")
    digits = datasets.load_digits()
    images = np.repeat(np.repeat(digits.images / 8 - 1, 4, 1), 4, 2)
    images = np.repeat(images[:, None], 3, 1).astype(np.float32)
    labels = digits.target.astype(np.int64)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(images))
    train, test = order[:1437], order[1437:]
    batch = 32
    report = tmp_path / "report.json"
    flags = ["--optimizer", "momentum", "--input-shape", f"{batch},3,32,32",
             "--json", str(report)]
    train_step.make_step(source, tmp_path, *flags, "--checkpoint", "optimal")
    tightest = json.loads(report.read_text())["curve"][-1]["peak_bytes"]
    run = trainer(source, tmp_path, *flags, "--budget", str(tightest))
    assert json.loads(report.read_text())["recomputed"]
    run.learning_rate = lambda step: 0.05 * (1 - step / (44 * 8)) + 1e-4

    def epoch(number):
        mixed = np.random.default_rng(number).permutation(train)
        for i in range(0, len(mixed) - batch + 1, batch):
            chosen = mixed[i:i + batch]
            yield images[chosen], labels[chosen]

    run.fit(epoch, epochs=8, progress=False)
    run.write_model(tmp_path / "trained.onnx")
    assert accuracy(tmp_path / "trained.onnx", images[test], labels[test],
                    batch) > 0.97


@pytest.mark.skipif(not SLOW, reason="takes a minute: ONNX_MEMOPT_SLOW=1")
def test_the_tiny_gpt2_learns_the_documentation(tmp_path):
    """Characters of docs/, in micro-batches of the model's batch."""
    source = SHARED / "training" / "gpt2_tiny.onnx"
    if not source.is_file():
        pytest.skip(f"{source}: not there")
    text = "\n".join(path.read_text(encoding="utf-8")
                     for path in sorted((ROOT / "docs").glob("*.md"))
                     if path.name != "ops.md")
    codes = np.frombuffer(text.encode("ascii", "replace"), np.uint8)
    codes = codes.astype(np.int64)
    count, batch, length = 8, 2, 32
    run = trainer(source, tmp_path, "--optimizer", "adamw", "--clip-norm", "1",
                  "--accumulate", str(count))
    steps = 2500
    run.learning_rate = lambda step: 4e-3 * min(step / 50, 1 - step / steps)

    def pieces():
        rng = np.random.default_rng(0)
        for _ in range(steps):
            at = rng.integers(0, len(codes) - length - 1, count * batch)
            both = np.stack([codes[i:i + length + 1] for i in at])
            yield both[:, :-1], both[:, 1:]

    losses = run.fit(pieces(), progress=False)
    assert losses[0] > 4.5
    assert np.mean(losses[-100:]) < 2.0
