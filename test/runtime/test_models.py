"""Real models: predicted peaks against those that ONNX Runtime has.

At level none and at level all, bare and default, first run and steady state.
Two small models always; all others with ONNX_MEMOPT_SLOW=1, which takes an
hour of an idle machine and 16 GB of memory.
"""

import os

import models
import ort_memory
import pytest
import runtime_table as bench
from predict import MIB, differs

QUICK = ["light_squeezenet", "mobilenetv3"]
SLOW = os.environ.get("ONNX_MEMOPT_SLOW") == "1"
SHARED = ["bert", "bert_dyn", "gpt2", "gpt2_dyn", "llama4l", "mobilenetv3",
          "resnet50", "resnet50_dyn", "srgan_dyn", "unet_sd", "vae_dec",
          "vit_b16"]
LIGHT = ["light_bvlc_alexnet", "light_densenet121", "light_inception_v1",
         "light_inception_v2", "light_resnet50", "light_shufflenet",
         "light_squeezenet", "light_vgg19", "light_zfnet512"]


@pytest.fixture(name="model_path")
def fixture_model_path(request, materialize):
    name = request.param
    if not name.startswith("light_"):
        return materialize(name)
    path = models.light_networks().get(name)
    if path is None:
        pytest.skip("the onnx package is not installed")
    return path


@pytest.mark.parametrize("level", ["none", "all"])
@pytest.mark.parametrize("model_path", LIGHT + SHARED if SLOW else QUICK,
                         indirect=True)
def test_peaks(bin_dir, tmp_path, model_path, level):
    dims = models.DIMS.get(model_path.stem, {})
    predicted = bench.predictions(bin_dir / "onnx-memopt", model_path, level,
                                  dims, tmp_path)
    wrong = []
    for name, options in bench.OPTIONS.items():
        assert predicted[name]["complete"]
        peaks = ort_memory.measure(model_path, options, level, bench.THREADS,
                                   dims, timeout=3600)["peaks"]
        relative = 0.03 if level == "none" else 0.15
        for what, peak in (("first", peaks[0]), ("steady", peaks[-1])):
            line = differs(predicted[name][what], peak, relative,
                           2 * MIB if level == "none" else MIB)
            if line:
                wrong.append(f"{name}, {what}: {line}")
    assert not wrong
