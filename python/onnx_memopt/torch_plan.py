"""Applies a checkpoint plan to a PyTorch module.

    onnx-memopt train model.onnx -o step.onnx --budget 2GiB \\
        --emit-torch-plan plan.json

    from onnx_memopt import torch_plan
    wrapped = torch_plan.apply(network, "plan.json")
    ...  # train as before: the forward pass of these modules runs again in the
    ...  # backward pass, and what they save is not kept
    torch_plan.remove(network)

The plan names modules as the exporter did. What it was made from is finer: it
may keep a value inside a module, which torch.utils.checkpoint cannot.
"""

import functools
import json
import os

FORMAT = "onnx-memopt torch plan"
VERSION = 1


class PlanError(ValueError):
    """The plan cannot be read, or is not one for this module."""


def read(plan):
    """The plan as a dict, from a path, or from the dict itself."""
    if not isinstance(plan, dict):
        with open(os.fspath(plan), encoding="utf-8") as file:
            try:
                plan = json.load(file)
            except json.JSONDecodeError as error:
                raise PlanError(f"{plan}: {error}") from None
    if not isinstance(plan, dict) or plan.get("format") != FORMAT:
        raise PlanError(f'expected "format": "{FORMAT}"')
    if plan.get("version") != VERSION:
        raise PlanError(f"the plan is of version {plan.get('version')}, this "
                        f"package reads version {VERSION}")
    return plan


def apply(module, plan, *, prefix="", **options):
    """Wraps the modules that the plan names, in place; returns their names.

    prefix: what stands before the names in the plan, where a wrapper around
    `module` was exported. options: for torch.utils.checkpoint.checkpoint.
    """
    names = [entry["module"] for entry in read(plan)["modules"]]
    if prefix:
        start = prefix + "."
        names = [n.removeprefix(start) for n in names if n.startswith(start)]
    found = dict(module.named_modules())
    missing = [name for name in names if name not in found]
    if missing:
        raise PlanError(f'the module has no "{missing[0]}"; for a module that '
                        "was exported inside another, give prefix=")
    for name in names:
        _wrap(found[name], options)
    return names


def remove(module):
    """Undoes apply(); returns the names of the modules that were wrapped."""
    names = []
    for name, inner in module.named_modules():
        if hasattr(inner, "_onnx_memopt_forward"):
            del inner.forward
            del inner._onnx_memopt_forward
            names.append(name)
    return names


def _wrap(module, options):
    if hasattr(module, "_onnx_memopt_forward"):
        return
    from torch.utils.checkpoint import checkpoint

    options = {"use_reentrant": False, **options}
    forward = module.forward

    @functools.wraps(forward)
    def checkpointed(*args, **kwargs):
        return checkpoint(forward, *args, **options, **kwargs)

    module._onnx_memopt_forward = forward
    module.forward = checkpointed
