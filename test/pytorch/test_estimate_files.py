"""DeepSpeed and Accelerate load the files that estimate writes for them."""

import importlib.util
import json
import pathlib

import pytest

from memopt_program import memopt

MODEL = (pathlib.Path(__file__).resolve().parents[1]
         / "estimate/recorded/hf_gpt2.onnx")

# Flags, and what they come to: data-parallel processes, micro-batches of a step,
# the stage of ZeRO, where offloaded state goes, the precision.
SETUPS = [
    (["--precision", "fp16", "--dp", "4", "--zero", "2", "--accumulate", "2"],
     4, 2, 2, "none", "fp16"),
    (["--precision", "bf16", "--dp", "8", "--zero", "3", "--offload",
      "optimizer,parameters", "--optimizer", "adamw"], 8, 1, 3, "cpu", "bf16"),
    (["--precision", "autocast-fp16", "--dp", "2"], 2, 1, 0, "none", "fp16"),
    (["--precision", "autocast-bf16", "--zero", "1", "--dp", "2"],
     2, 1, 1, "none", "bf16"),
    (["--optimizer", "momentum"], 1, 1, 0, "none", "no"),
    (["--optimizer", "lion", "--accumulate", "3"], 1, 3, 0, "none", "no"),
]
BATCH = 3


def needs(package):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: ./dev test-torch has it")


def emit(tmp_path, option, name, flags):
    done = memopt("estimate", MODEL, "--batch", BATCH, *flags, "-q", option,
                  name, cwd=tmp_path)
    assert done.code == 0, done.stderr
    return tmp_path / name


@pytest.mark.parametrize("flags, processes, micro, stage, device, precision",
                         SETUPS)
def test_deepspeed_loads_its_file(tmp_path, monkeypatch, flags, processes,
                                  micro, stage, device, precision):
    needs("deepspeed")
    from deepspeed.runtime import config
    # In place of the processes that a launcher would start.
    monkeypatch.setattr(config.dist, "get_rank", lambda: 0)
    monkeypatch.setattr(config.dist, "get_world_size", lambda: processes)
    path = emit(tmp_path, "--emit-deepspeed", "ds.json", flags)
    loaded = config.DeepSpeedConfig(str(path))
    assert loaded.train_batch_size == BATCH * processes * micro
    assert loaded.train_micro_batch_size_per_gpu == BATCH
    assert loaded.gradient_accumulation_steps == micro
    zero = loaded.zero_config
    assert zero.stage == stage
    for offload in (zero.offload_optimizer, zero.offload_param):
        assert (offload.device if offload else "none") == device
    autocast = "autocast" in " ".join(flags)
    assert loaded.float16_config.enabled is (
        precision == "fp16" and not autocast)
    assert loaded.bfloat16_config.enabled is (
        precision == "bf16" and not autocast)
    # What DeepSpeed does not know is in no field of what it loaded.
    written = json.loads(path.read_text())
    assert loaded.optimizer_name.lower() == written["optimizer"]["type"].lower()
    assert loaded.optimizer_params == written["optimizer"]["params"]


@pytest.mark.parametrize("flags, processes, micro, stage, device, precision",
                         SETUPS)
def test_accelerate_loads_its_file(tmp_path, flags, processes, micro, stage,
                                   device, precision):
    needs("accelerate")
    from accelerate.commands import launch
    from accelerate.commands.config import config_args
    path = emit(tmp_path, "--emit-accelerate", "accelerate.yaml", flags)
    config = config_args.load_config_from_file(str(path))
    assert config.num_processes == processes
    assert config.mixed_precision == precision
    # As `accelerate launch --config_file` takes it.
    arguments = launch.launch_command_parser().parse_args(
        ["--config_file", str(path), "train.py"])
    arguments, _, _ = launch._validate_launch_command(arguments)
    assert arguments.num_processes == processes
    assert arguments.mixed_precision == precision
    assert arguments.use_deepspeed is (stage > 0)
    assert arguments.multi_gpu is (processes > 1 and stage == 0)
    if stage > 0:
        assert arguments.zero_stage == stage
        assert arguments.gradient_accumulation_steps == micro
        assert arguments.offload_optimizer_device == device
        assert arguments.offload_param_device == device
