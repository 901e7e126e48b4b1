"""Applying a checkpoint plan to a module: with a stand-in for torch, which need
not be installed, and with torch where it is."""

import pathlib
import sys
import types

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from onnx_memopt import torch_plan  # noqa: E402
from memopt_program import SHARED, memopt  # noqa: E402


def plan_of(*modules):
    return {"format": torch_plan.FORMAT, "version": torch_plan.VERSION,
            "modules": [{"module": name} for name in modules]}


class Block:
    """What torch_plan asks of a torch.nn.Module."""

    def __init__(self, **children):
        self.children = children

    def forward(self, value):
        return value + 1

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, child in self.children.items():
            yield from child.named_modules(f"{prefix}.{name}" if prefix
                                           else name)


@pytest.fixture
def calls(monkeypatch):
    """Arguments of torch.utils.checkpoint.checkpoint."""
    made = []

    def checkpoint(function, *args, **options):
        made.append(options)
        return function(*args)

    module = types.ModuleType("torch.utils.checkpoint")
    module.checkpoint = checkpoint
    for name in ("torch", "torch.utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "torch.utils.checkpoint", module)
    return made


def test_modules_are_wrapped_once_and_unwrapped(calls):
    net = Block(h=Block(a=Block(), b=Block()))
    assert torch_plan.apply(net, plan_of("h.a")) == ["h.a"]
    torch_plan.apply(net, plan_of("h.a"))
    inner = net.children["h"].children["a"]
    assert inner.forward(1) == 2
    assert calls == [{"use_reentrant": False}]
    assert torch_plan.remove(net) == ["h.a"]
    assert inner.forward(1) == 2
    assert len(calls) == 1
    assert torch_plan.remove(net) == []


def test_a_prefix_and_options_are_passed_on(calls):
    net = Block(h=Block())
    assert torch_plan.apply(net, plan_of("m.h", "other"), prefix="m",
                            use_reentrant=True) == ["h"]
    net.children["h"].forward(1)
    assert calls == [{"use_reentrant": True}]


def test_what_does_not_fit_is_an_error(tmp_path):
    with pytest.raises(torch_plan.PlanError, match='no "h.a"'):
        torch_plan.apply(Block(), plan_of("h.a"))
    with pytest.raises(torch_plan.PlanError, match="format"):
        torch_plan.apply(Block(), {"modules": []})
    with pytest.raises(torch_plan.PlanError, match="version 2"):
        torch_plan.read({**plan_of(), "version": 2})
    broken = tmp_path / "plan.json"
    broken.write_text("{")
    with pytest.raises(torch_plan.PlanError, match="plan.json"):
        torch_plan.read(broken)


def test_the_program_writes_plans_of_the_exporters_modules(tmp_path):
    model = SHARED / "training" / "gpt2_tiny.onnx"
    if not model.is_file():
        pytest.skip(f"{model}: not there")
    result = memopt("train", model, "-o", "s.onnx", "-q", "--checkpoint",
                    "per-layer", "--emit-torch-plan", "plan.json",
                    cwd=tmp_path)
    assert result.code == 0, result.stderr
    plan = torch_plan.read(tmp_path / "plan.json")
    names = [entry["module"] for entry in plan["modules"]]
    assert names
    assert all(name.startswith("transformer.h") for name in names), names
    assert all(entry["bytes"] > 0 for entry in plan["modules"])
    refused = memopt("train", model, "-o", "s.onnx", "--emit-torch-plan",
                     "p.json", cwd=tmp_path)
    assert refused.code == 2
    assert "--emit-torch-plan needs --checkpoint" in refused.stderr


def test_gradients_are_the_same_with_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    net = torch.nn.Sequential(*(torch.nn.Sequential(
        torch.nn.Linear(8, 8), torch.nn.Tanh()) for _ in range(3)))
    x = torch.randn(4, 8)
    net(x).sum().backward()
    plain = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    torch_plan.apply(net, plan_of("0", "1"))
    net(x).sum().backward()
    for before, after in zip(plain, net.parameters()):
        assert torch.equal(before, after.grad)
