"""Records what PyTorch's autograd keeps for the backward pass, and the graphs.

    python test/estimate/record_saved_tensors.py test/estimate/recorded

Needs torch, torchvision, timm, transformers, onnx and onnxscript; the tests
need none of them. For each model it writes NAME.onnx, the graph in training
mode without its weights, and a row of saved_tensors.json:

  saved_bytes      distinct storages that saved_tensors_hooks sees in one
                   forward pass on the CPU, but for parameters and buffers
  inputs_bytes     the part of it that is the model's inputs
  step_peak_bytes  the most that a step allocates at once: forward, mean
                   cross-entropy over the last axis, backward, gradients set to
                   none before. Not for networks with patches: a convolution
                   with a stride as large as its window unfolds its image on a
                   CPU
  parameters       elements of the parameters
  attention        "fused" where attention ran as one operator

Models are made from their configuration with random weights and few layers:
the layers of a network are alike. Dropout is off, since on a CPU PyTorch runs
it otherwise than on a GPU.
"""

import argparse
import gc
import json
import pathlib
import sys

import onnx
import timm
import torch
import torchvision
import transformers
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from saved_storages import SavedStorages  # noqa: E402

SEQUENCE = 64
PATCHES = ("tv_vit", "timm_vit", "timm_convnext")
BATCH = 2


def image(size=64):
    return (torch.randn(BATCH, 3, size, size),)


def tokens():
    return (torch.randint(0, 1000, (BATCH, SEQUENCE)),)


class Logits(torch.nn.Module):
    """The first output of a transformers model."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(input_ids=ids, use_cache=False)[0]


class BertLogits(Logits):
    def forward(self, ids):
        return self.model(input_ids=ids)[0]


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(module, torch.nn.MultiheadAttention):
            module.dropout = 0.0
    return model


def models():
    """Name, module, inputs, whether attention is one operator."""
    tv = torchvision.models
    yield "tv_resnet18", tv.resnet18(), image(), False
    yield "tv_resnet50", tv.resnet50(), image(224), False
    yield "tv_vgg11", tv.vgg11(), image(224), False
    yield "tv_mobilenet_v3_small", tv.mobilenet_v3_small(), image(), False
    yield ("tv_vit", tv.VisionTransformer(64, 16, 2, 4, 128, 256,
                                          num_classes=10), image(), True)
    yield ("timm_convnext", timm.create_model(
        "convnext_atto", depths=(1, 1, 2, 1)), image(), False)
    yield ("timm_vit", timm.create_model(
        "vit_tiny_patch16_224", img_size=64, depth=2), image(), True)
    yield ("timm_mixer", timm.models.mlp_mixer.MlpMixer(
        img_size=64, patch_size=8, num_blocks=2, embed_dim=128), image(), False)
    eager = {"attn_implementation": "eager"}
    yield "hf_bert", BertLogits(transformers.BertModel(transformers.BertConfig(
        vocab_size=1000, hidden_size=128, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=512,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **eager),
        add_pooling_layer=False)), tokens(), False
    yield "hf_gpt2", Logits(transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=1000, n_positions=SEQUENCE, n_embd=128, n_layer=2,
            n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            **eager))), tokens(), False
    yield "hf_llama", Logits(transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=1000, hidden_size=128, intermediate_size=352,
            num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, **eager))), tokens(), False
    yield "hf_gpt2_fused", Logits(transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=1000, n_positions=SEQUENCE, n_embd=128, n_layer=2,
            n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            attn_implementation="sdpa"))), tokens(), True


def saved_storages(model, inputs):
    """Bytes of each storage that a forward pass keeps, by address."""
    saved = SavedStorages(model)
    with torch.autograd.graph.saved_tensors_hooks(saved.keep, lambda t: t):
        model(*inputs)
    return saved.sizes()


def step_peak(model, inputs):
    """From the profiler's events: one for each allocation and free."""
    def step():
        logits = model(*inputs)
        target = torch.zeros(logits.shape[:-1], dtype=torch.long)
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), target.reshape(-1))
        loss.backward()
        return logits

    step()
    model.zero_grad(set_to_none=True)
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU],
                 profile_memory=True) as profiler:
        logits = step()
    live = peak = 0
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    del logits
    model.zero_grad(set_to_none=True)
    return peak


def strip_weights(path):
    """Large weights become external data in a file that does not exist."""
    model = onnx.load(path)
    offset = 0
    for tensor in model.graph.initializer:
        floating = tensor.data_type == onnx.TensorProto.FLOAT
        size = len(tensor.raw_data)
        if not floating or size < 1024:
            continue
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in {"location": "absent.data", "offset": str(offset),
                           "length": str(size)}.items():
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value
        offset += size
    model.ClearField("doc_string")
    model.ClearField("metadata_props")
    for node in model.graph.node:
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    for value in model.graph.value_info:
        value.ClearField("metadata_props")
    onnx.save(model, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    table = args.folder / "saved_tensors.json"
    rows = json.loads(table.read_text()) if table.exists() else {}
    for name, model, inputs, fused in models():
        if args.only and args.only not in name:
            continue
        torch.manual_seed(0)
        without_dropout(model).train()
        kept = saved_storages(model, inputs)
        peak = None if name in PATCHES else step_peak(model, inputs)
        addresses = {t.untyped_storage().data_ptr() for t in inputs}
        path = args.folder / f"{name}.onnx"
        if name.startswith("hf_"):
            # Without dropout and batch statistics both modes are one graph.
            torch.onnx.export(model.eval(), inputs, str(path), dynamo=True,
                              opset_version=18, external_data=False,
                              optimize=False)
        else:
            torch.onnx.export(
                model, inputs, str(path), dynamo=False, opset_version=17,
                training=torch.onnx.TrainingMode.TRAINING,
                do_constant_folding=False)
        strip_weights(path)
        rows[name] = {
            "saved_bytes": sum(kept.values()),
            "step_peak_bytes": peak,
            "inputs_bytes": sum(s for a, s in kept.items() if a in addresses),
            "parameters": sum(p.numel() for p in model.parameters()),
            "attention": "fused" if fused else "eager",
            "torch": torch.__version__.split("+")[0],
        }
        print(name, rows[name], path.stat().st_size, flush=True)
        table.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
