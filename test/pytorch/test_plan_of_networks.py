"""torch_plan on real modules: exported, planned, wrapped. Gradients stay the same,
and what autograd keeps falls by what the plan says."""

import copy
import importlib.util
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from onnx_memopt import torch_plan  # noqa: E402
from memopt_program import memopt  # noqa: E402
from saved_storages import SavedStorages  # noqa: E402


def resnet(torch):
    import torchvision
    return (torchvision.models.resnet18(num_classes=10).train(),
            torch.randn(4, 3, 64, 64))


def gpt2(torch):
    import transformers

    class Logits(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, ids):
            return self.model(input_ids=ids, use_cache=False)[0]

    # Without dropout both modes are one graph.
    return Logits(transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=100, n_positions=32, n_embd=64, n_layer=3, n_head=2,
        bos_token_id=0, eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, attn_implementation="eager"))).eval(), torch.randint(
            0, 100, (2, 32))


def saved_bytes(torch, network, inputs, wrapped):
    """What a forward pass keeps for the backward pass, and its output: storages
    that autograd saves, and inputs of modules that run again."""
    saved = SavedStorages(network)

    def keep_inputs(_, arguments):
        for argument in arguments:
            if isinstance(argument, torch.Tensor):
                saved.keep(argument)

    modules = dict(network.named_modules())
    hooks = [modules[name].register_forward_pre_hook(keep_inputs)
             for name in wrapped]
    with torch.autograd.graph.saved_tensors_hooks(saved.keep, lambda t: t):
        output = network(inputs)
    for hook in hooks:
        hook.remove()
    return saved.bytes(), output


# By package: the network, and how the names of its modules begin.
NETWORKS = {"torchvision": (resnet, "layer"),
            "transformers": (gpt2, "model.transformer.h.")}


@pytest.mark.parametrize("package", NETWORKS)
def test_saved_bytes_fall_as_planned(tmp_path, package):
    for needed in ("torch", "onnxscript", package):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed: ./dev test-torch has it")
    import torch
    make, expected = NETWORKS[package]
    torch.manual_seed(0)
    network, inputs = make(torch)
    torch.onnx.export(network, (inputs,), str(tmp_path / "net.onnx"),
                      dynamo=True, external_data=False, optimize=False,
                      verbose=False)
    done = memopt("train", "net.onnx", "-o", "step.onnx", "-q", "--checkpoint",
                  "per-layer", "--emit-torch-plan", "plan.json", cwd=tmp_path)
    assert done.code == 0, done.stderr
    plan = torch_plan.read(tmp_path / "plan.json")
    planned = sum(entry["bytes"] for entry in plan["modules"])

    wrapped = copy.deepcopy(network)
    names = torch_plan.apply(wrapped, plan)
    assert len(names) >= 3
    assert all(name.startswith(expected) for name in names), names
    before, loss = saved_bytes(torch, network, inputs, [])
    after, loss_again = saved_bytes(torch, wrapped, inputs, names)
    assert before - after == pytest.approx(planned, rel=0.03)
    assert before - after > 0.3 * before

    loss.square().mean().backward()
    loss_again.square().mean().backward()
    for (name, a), b in zip(network.named_parameters(), wrapped.parameters()):
        assert torch.equal(a.grad, b.grad), name
    assert torch_plan.remove(wrapped) == names
