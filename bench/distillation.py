"""A small student on scikit-learn's digits, taught and trained alone.

    python bench/distillation.py [--seeds 5] [--samples 200] [--epochs 60]

The teacher is a convolutional network, trained on all 1257 images that are not
for the test. Students are perceptrons with a hidden layer of 16, trained on some
of these images, with the same initial weights, batches, optimizer and steps:

    alone          cross-entropy of the labels
    taught         --alpha 0.7 --temperature 4, on the same images and labels
    taught, more   --alpha 1 on all images, which takes no labels

Shown is the part of the 540 test images that are right: mean and deviation over
the seeds, which choose weights, images and batches.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
from onnx_memopt.training import Trainer  # noqa: E402

PROGRAM = ROOT / "build/release/bin/onnx-memopt"
BATCH = 20
TEST_IMAGES = 540
TEACHER = """
<ir_version: 8, opset_import: ["" : 18]>
teacher (float[n, 64] x) => (float[n, 10] y)
<int64[4] image = {-1, 1, 8, 8}>
{
  i = Reshape(x, image)
  c = Conv<pads = [1, 1, 1, 1]>(i, w0, b0)
  r = Relu(c)
  d = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(r, w1, b1)
  s = Relu(d)
  f = Flatten(s)
  p = MatMul(f, w2)
  y = Add(p, b2)
}
"""
STUDENT = """
<ir_version: 8, opset_import: ["" : 18]>
student (float[n, 64] x) => (float[n, 10] y)
{
  p = MatMul(x, w0)
  a = Add(p, b0)
  h = Relu(a)
  q = MatMul(h, w1)
  y = Add(q, b1)
}
"""
SHAPES = {TEACHER: [(16, 1, 3, 3), (32, 16, 3, 3), (512, 10)],
          STUDENT: [(64, 16), (16, 10)]}
BIASES = {TEACHER: [16, 32, 10], STUDENT: [16, 10]}


def write_model(text: str, path: pathlib.Path, seed: int) -> pathlib.Path:
    model = onnx.parser.parse_model(text)
    rng = np.random.default_rng(seed)
    for i, (shape, bias) in enumerate(zip(SHAPES[text], BIASES[text])):
        inputs = np.prod(shape[1:]) if len(shape) == 4 else shape[0]
        values = rng.normal(0, (2 / inputs) ** 0.5, shape)
        for name, value in ((f"w{i}", values), (f"b{i}", np.zeros(bias))):
            model.graph.initializer.append(onnx.numpy_helper.from_array(
                value.astype(np.float32), name))
    onnx.save(model, path)
    return path


def train(model: pathlib.Path, folder: pathlib.Path, images, labels, *flags,
          program=PROGRAM, epochs: int, seed: int) -> pathlib.Path:
    """Gives the trained model; without labels where there is no target."""
    step, start = folder / "step.onnx", folder / "start.onnx"
    subprocess.run([program, "train", model, "-o", step, "--initial-state",
                    start, "--optimizer", "adam", "-q", "--dim", f"n={BATCH}",
                    *flags], check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # as fast, for models of this size
    run = Trainer(model, step=step, start=start, session_options=options)
    steps = epochs * (len(images) // BATCH)
    run.learning_rate = lambda done: 3e-3 * (1 - done / steps) + 1e-5

    def batches(epoch):
        order = np.random.default_rng([seed, epoch]).permutation(len(images))
        for i in range(0, len(order) - BATCH + 1, BATCH):
            part = order[i:i + BATCH]
            yield ((images[part], labels[part]) if labels is not None
                   else (images[part],))

    run.fit(batches, epochs=epochs, progress=False)
    trained = folder / f"trained_{model.name}"
    run.write_model(trained)
    return trained


def accuracy(model: pathlib.Path, images, labels) -> float:
    session = onnxruntime.InferenceSession(
        model.read_bytes(), providers=["CPUExecutionProvider"])
    found = session.run(None, {"x": images})[0].argmax(1)
    return float((found == labels).mean())


def compare(seeds: int, samples: int, epochs: int, program=PROGRAM
            ) -> tuple[float, dict[str, list[float]]]:
    """The teacher's accuracy, and those of the students by their name."""
    from sklearn import datasets
    digits = datasets.load_digits()
    images = (digits.data / 8 - 1).astype(np.float32)
    labels = digits.target.astype(np.int64)
    order = np.random.default_rng(0).permutation(len(images))
    test, rest = order[:TEST_IMAGES], order[TEST_IMAGES:]
    found: dict[str, list[float]] = {"alone": [], "taught": [],
                                     "taught, more": []}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        teacher = train(write_model(TEACHER, folder / "teacher.onnx", 0), folder,
                        images[rest], labels[rest], program=program, epochs=20,
                        seed=0)
        best = accuracy(teacher, images[test], labels[test])
        soft = ["--teacher", teacher, "--temperature", "4"]
        for seed in range(seeds):
            student = write_model(STUDENT, folder / "student.onnx", seed)
            few = np.random.default_rng(seed).choice(rest, samples, False)
            ways = {
                "alone": (few, labels[few], epochs, []),
                "taught": (few, labels[few], epochs, [*soft, "--alpha", "0.7"]),
                # As many steps on more images.
                "taught, more": (rest, None, max(1, epochs * samples // len(rest)),
                                 [*soft, "--alpha", "1"])}
            for way, (chosen, known, times, flags) in ways.items():
                trained = train(student, folder, images[chosen], known, *flags,
                                program=program, epochs=times, seed=seed)
                found[way].append(accuracy(trained, images[test], labels[test]))
    return best, found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=60)
    arguments = parser.parse_args()
    best, found = compare(arguments.seeds, arguments.samples, arguments.epochs)
    print(f"teacher       {100 * best:.1f} %")
    for way, values in found.items():
        print(f"{way:13s} {100 * np.mean(values):.1f} %, deviation "
              f"{100 * np.std(values):.1f}, seeds "
              + ", ".join(f"{100 * v:.1f}" for v in values))


if __name__ == "__main__":
    main()
