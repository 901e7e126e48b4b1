"""What an estimate plans: checkpoints, stages, precisions, lengths, allocators,
and the table of GPUs that it plans for."""

import json
import re

import onnx
import pytest

import estimate_models
from test_estimate import CONVOLUTIONS, HERE, TRANSFORMER, estimate, run

GPUS = json.loads((HERE.parents[1] / "data" / "gpus.json").read_text())
MIB = 1 << 20


# ---- checkpoints

def test_checkpoints_keep_within_a_budget(bin_dir):
    base = ["--batch", 4096]
    most = estimate(bin_dir, TRANSFORMER, *base)
    least = estimate(bin_dir, TRANSFORMER, *base, "--checkpoint", "full")
    overheads = []
    for percent in (10, 35, 60, 85):
        budget = (least["total_bytes"] + (most["total_bytes"] -
                  least["total_bytes"]) * percent // 100) // MIB
        report = estimate(bin_dir, TRANSFORMER, *base, "--checkpoint",
                          f"{budget}MiB")
        assert report["total_bytes"] <= budget * MIB
        assert report["checkpoints"]
        overheads.append(report["recompute_overhead"])
        # More memory than allowed with the next cheaper point of the curve.
        cheaper = [p for p in report["checkpoint_curve"]
                   if p["overhead"] < report["recompute_overhead"] - 1e-9]
        assert all(p["total_bytes"] > budget * MIB for p in cheaper)
    assert overheads == sorted(overheads, reverse=True)
    assert overheads[0] <= least["recompute_overhead"] + 1e-9
    roomy = estimate(bin_dir, TRANSFORMER, *base, "--checkpoint", "1TiB")
    assert roomy["checkpoints"] == []


def test_checkpoints_that_fit_a_gpu(bin_dir):
    totals = [estimate(bin_dir, TRANSFORMER, "--batch", 4096, "--checkpoint",
                       kind)["total_bytes"] for kind in ("none", "full")]
    memory = sum(totals) // 2 // MIB
    plain = ["--batch", 4096, "--memory", f"{memory}MiB"]
    base = estimate(bin_dir, TRANSFORMER, *plain)
    assert not base["fits_budget"]
    report = estimate(bin_dir, TRANSFORMER, *plain, "--checkpoint", "fit")
    assert report["fits_budget"]
    row = next(r for r in base["advice"] if "makes it fit" in r["change"])
    assert row["flags"] == f"--checkpoint {memory}MiB"
    assert row["total_bytes"] == report["total_bytes"]


@pytest.mark.parametrize("flags, says", [
    (["--checkpoint", "10KiB"], "recomputation alone does not get there"),
    (["--checkpoint", "fit"], "--gpu NAME"),
    (["--checkpoint", "8XiB"], "selective"),
])
def test_wrong_checkpoints_are_one_line(bin_dir, flags, says):
    done = run(bin_dir, TRANSFORMER, *flags)
    assert done.returncode == 2
    assert re.fullmatch(r"error: [^\n]+\n", done.stderr), done.stderr
    assert says in done.stderr


# ---- skips

@pytest.fixture(scope="module", name="unet")
def unet_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("unet") / "unet.onnx"
    onnx.save(estimate_models.unet(), path)
    return path


def test_a_unet_is_cut_though_skips_cross(bin_dir, unet):
    plain = estimate(bin_dir, unet, "--batch", 16)
    cuts = [i for i, unit in enumerate(plain["units"]) if unit["cut"]]
    pieces = [b - a for a, b in zip([0, *cuts], [*cuts, len(plain["units"])])]
    assert max(pieces) <= len(plain["units"]) / 5
    blocks = estimate(bin_dir, unet, "--batch", 16, "--checkpoint", "full")
    assert len(blocks["checkpoints"]) >= 10
    assert (blocks["saved_activation_bytes"]
            < 0.75 * plain["saved_activation_bytes"])


def test_stages_of_a_unet_are_balanced(bin_dir, unet):
    flags = ["--batch", 64, "--micro-batches", 4]
    one = estimate(bin_dir, unet, *flags)["live_peak_bytes"]
    report = estimate(bin_dir, unet, *flags, "--pp", 4)
    peaks = [row["live_peak_bytes"] for row in report["per_gpu"]]
    assert len(peaks) == 4
    # Several micro-batches wait in each stage but the last.
    assert max(peaks) < one
    assert max(peaks) < 2 * sorted(peaks)[1]


# ---- precision

def test_autocast_is_between_float32_and_16_bits(bin_dir):
    saved, states = {}, {}
    for precision in ("fp32", "autocast-bf16", "autocast-fp16", "bf16"):
        report = estimate(bin_dir, TRANSFORMER, "--batch", 256, "--precision",
                          precision)
        saved[precision] = report["saved_activation_bytes"]
        states[precision] = report["per_gpu"][0]["states_bytes"]
    assert saved["bf16"] < saved["autocast-bf16"] < saved["fp32"]
    assert saved["autocast-fp16"] == saved["autocast-bf16"]
    # Weights, gradients, and two numbers of state, all in float32.
    assert states["autocast-bf16"] == states["fp32"]
    # In a network of convolutions nearly everything has 16 bits.
    wide, narrow = (estimate(bin_dir, CONVOLUTIONS, "--batch", 2048,
                             "--precision", p)["saved_activation_bytes"]
                    for p in ("fp32", "autocast-fp16"))
    assert narrow < 0.6 * wide


def test_float32_inside_a_16_bit_model_counts_as_such(bin_dir, tmp_path):
    rows = 64
    path = tmp_path / "half.onnx"
    onnx.save(estimate_models.half_with_float_softmax(rows), path)
    report = estimate(bin_dir, path, "--precision", "bf16-pure")
    # x and the operand of the second product in 16 bits, the softmax in 32.
    assert report["saved_activation_bytes"] == rows * rows * (2 + 4 + 2)


# ---- lengths

def test_the_longest_that_fits(bin_dir, tmp_path):
    model = tmp_path / "m.onnxtxt"
    model.write_text('''<ir_version: 9, opset_import: ["" : 18]>
        g (float[n, rows, 64] x) => (float[n, rows, 64] y) { y = Relu(x) }''')
    budget = ["--memory", "1GiB"]
    report = estimate(bin_dir, model, "--dim", "rows=1024", "--batch", 64,
                      *budget, "--max-batch")
    length = report["max_length"]
    assert length > 1024
    for rows, fits in ((length, True), (length + 64, False)):
        assert estimate(bin_dir, model, "--dim", f"rows={rows}", "--batch", 64,
                        *budget)["fits_budget"] is fits


# ---- allocators

def test_allocators_reserve_what_is_live_and_more(bin_dir):
    report = estimate(bin_dir, TRANSFORMER, "--batch", 512)
    a = report["allocators"]
    live = report["live_peak_bytes"]
    assert live <= a["caching_allocated_bytes"] <= a["caching_reserved_bytes"]
    for name in ("expandable", "tensorflow", "runtime", "runtime_same"):
        assert live <= a[f"{name}_reserved_bytes"] < 4 * live, name
    # But for the last pages of two segments.
    assert (a["expandable_reserved_bytes"]
            <= a["caching_reserved_bytes"] + 22 * MIB)
    assert 0 <= a["idle_bytes"] <= a["caching_reserved_bytes"]
    text = " ".join(a["advice"])
    for setting in ("expandable_segments:True", "empty_cache",
                    "TF_FORCE_GPU_ALLOW_GROWTH", "kSameAsRequested",
                    "gpu_mem_limit"):
        assert setting in text


# ---- the table of GPUs

def test_every_gpu_has_figures_and_a_source():
    names = [gpu["name"] for gpu in GPUS["gpus"]]
    assert len(names) == len(set(names)) >= 45
    assert {gpu["class"] for gpu in GPUS["gpus"]} == {
        "consumer", "workstation", "data centre"}
    assert {gpu["vendor"] for gpu in GPUS["gpus"]} == {"NVIDIA", "AMD"}
    for gpu in GPUS["gpus"]:
        source = GPUS["sources"][gpu["source"]]
        assert source["title"] and source["address"].startswith("https://")
        assert "read_in" in source
        assert gpu["memory_gib"] >= 8 and gpu["bandwidth_gbs"] > 200
        rates = gpu["tflops"]
        assert set(rates) <= {"fp32", "tf32", "fp16", "bf16", "fp8"}
        # Fewer bits are never slower.
        order = [rates[p] for p in ("fp32", "tf32", "fp16", "fp8")
                 if p in rates]
        assert order == sorted(order), gpu["name"]
        assert rates.get("bf16", rates.get("fp16")) == rates.get("fp16")


def test_the_report_has_the_rates_of_the_table(bin_dir):
    fits = estimate(bin_dir, CONVOLUTIONS, "--gpu", "all")["fits"]
    assert [f["gpu"] for f in fits] == [g["name"] for g in GPUS["gpus"]]
    for fit, gpu in zip(fits, GPUS["gpus"]):
        for name, rate in fit["tflops"].items():
            assert rate == gpu["tflops"].get(name, 0)
        source = GPUS["sources"][gpu["source"]]
        assert fit["source"] == {key: source[key]
                                 for key in ("title", "address")}


def test_a_gpu_without_bfloat16_is_said_to_have_none(bin_dir):
    for gpu, precision, says in (("V100-16GB", "bf16", True),
                                 ("V100-16GB", "autocast-bf16", True),
                                 ("V100-16GB", "fp16", False),
                                 ("A100-80GB", "bf16", False)):
        notes = estimate(bin_dir, CONVOLUTIONS, "--gpu", gpu, "--precision",
                         precision)["notes"]
        assert any("bfloat16" in note for note in notes) is says


# ---- files for other tools, by what their documentation lists

# https://www.deepspeed.ai/docs/config-json
DEEPSPEED = {
    "train_batch_size": int, "train_micro_batch_size_per_gpu": int,
    "gradient_accumulation_steps": int, "optimizer": dict, "fp16": dict,
    "bf16": dict, "torch_autocast": dict, "zero_optimization": dict,
}
DEEPSPEED_ZERO = {
    "stage": int, "reduce_bucket_size": int, "allgather_bucket_size": int,
    "overlap_comm": bool, "contiguous_gradients": bool,
    "offload_optimizer": dict, "offload_param": dict,
    "stage3_prefetch_bucket_size": int, "stage3_max_live_parameters": int,
}
DEEPSPEED_OPTIMIZERS = {"Adam", "AdamW", "Lion", "SGD"}
# What `accelerate config` writes.
ACCELERATE = {
    "compute_environment", "debug", "deepspeed_config", "distributed_type",
    "downcast_bf16", "gpu_ids", "machine_rank", "main_training_function",
    "mixed_precision", "num_machines", "num_processes", "rdzv_backend",
    "same_network", "use_cpu",
}
SETUPS = [
    ["--precision", "fp16", "--dp", "4", "--zero", "2", "--accumulate", "2"],
    ["--precision", "bf16", "--dp", "8", "--zero", "3", "--offload",
     "optimizer,parameters", "--optimizer", "adamw"],
    ["--precision", "autocast-fp16", "--dp", "2"],
    ["--precision", "autocast-bf16", "--zero", "1", "--dp", "2"],
    ["--optimizer", "momentum"],
]


@pytest.mark.parametrize("flags", SETUPS)
def test_deepspeed_documents_all_that_is_written(bin_dir, tmp_path, flags):
    path = tmp_path / "ds.json"
    assert run(bin_dir, TRANSFORMER, "--batch", 3, *flags, "-q",
               "--emit-deepspeed", path).returncode == 0
    written = json.loads(path.read_text())
    for table, known in ((written, DEEPSPEED),
                         (written["zero_optimization"], DEEPSPEED_ZERO)):
        for name, value in table.items():
            assert type(value) is known[name], name
    gpus = int(flags[flags.index("--dp") + 1]) if "--dp" in flags else 1
    assert written["train_batch_size"] == gpus * written[
        "train_micro_batch_size_per_gpu"] * written[
        "gradient_accumulation_steps"]
    assert written["optimizer"]["type"] in DEEPSPEED_OPTIMIZERS
    # DeepSpeed refuses two of them at once.
    modes = [written[m]["enabled"] for m in ("fp16", "bf16", "torch_autocast")
             if m in written]
    assert sum(modes) <= 1
    autocast = "autocast" in " ".join(flags)
    assert ("torch_autocast" in written) is autocast


@pytest.mark.parametrize("flags", SETUPS)
def test_accelerate_documents_all_that_is_written(bin_dir, tmp_path, flags):
    path = tmp_path / "accelerate.yaml"
    assert run(bin_dir, TRANSFORMER, *flags, "-q", "--emit-accelerate",
               path).returncode == 0
    lines = [line for line in path.read_text().splitlines()
             if not line.startswith(" ")]
    fields = dict(line.split(":", 1) for line in lines)
    assert set(fields) <= ACCELERATE
    precision = flags[1] if flags[0] == "--precision" else "no"
    assert fields["mixed_precision"].strip(" '") == precision.replace(
        "autocast-", "")
    assert ("deepspeed_config" in fields) is ("--zero" in flags)
