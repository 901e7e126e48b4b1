"""Size against error of factorize, on all-MiniLM-L6-v2: the network turns
sentences into vectors, and what counts is the cosine between a vector before and
after.

Sentences are those of this project's docs. Moments come from other sentences than
those that are compared.
"""

import pathlib
import random
import re
import subprocess
import sys
import tempfile

import machine
import models
import ort_memory
import tables

NETWORK = "all-minilm-l6-v2"
LENGTH = 128
BATCH = 32
SAMPLES = 8  # batches, for the moments
SETTINGS = ["energy=0.99", "energy=0.95", "energy=0.9",
            "error-budget=0.05", "error-budget=0.1", "error-budget=0.2",
            "moments=M,error-budget=0.01", "moments=M,error-budget=0.02",
            "moments=M,error-budget=0.05", "moments=M,error-budget=0.1"]


def sentences():
    text = " ".join(path.read_text("utf-8") for path in
                    sorted((models.ROOT / "docs").glob("*.md")))
    text = re.sub(r"```.*?```", " ", text, flags=re.S)
    found = [part.strip() for part in re.split(r"(?<=[.!?])\s+", text)]
    found = sorted({part for part in found if 30 < len(part) < 300
                    and part[0].isupper() and "|" not in part})
    random.Random(0).shuffle(found)
    return found


def feed_of(np, tokenizer, batch):
    encoded = [tokenizer.encode(text).ids[:LENGTH] for text in batch]
    longest = max(map(len, encoded))
    ids = np.zeros((len(batch), longest), np.int64)
    mask = np.zeros_like(ids)
    for row, tokens in enumerate(encoded):
        ids[row, :len(tokens)] = tokens
        mask[row, :len(tokens)] = 1
    return {"input_ids": ids, "attention_mask": mask,
            "token_type_ids": np.zeros_like(ids)}


def vectors(np, path, feeds):
    session = ort_memory.quiet_session(path)
    rows = []
    for feed in feeds:
        hidden = session.run(None, feed)[0].astype(np.float64)
        mask = feed["attention_mask"][..., None]
        mean = (hidden * mask).sum(1) / mask.sum(1)
        rows.append(mean / np.linalg.norm(mean, axis=1, keepdims=True))
    return np.concatenate(rows)


def row_of(np, program, source, setting, folder, feeds, before):
    output = folder / "out.onnx"
    pipeline = setting.replace("moments=M", f"moments={folder / 'moments'}")
    done = subprocess.run(
        [str(program), str(source), "-o", str(output), "-q",
         f"--passes=factorize{{{pipeline}}}"],
        capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ort_memory.Failed(done.stderr.strip())
    cosines = (before * vectors(np, output, feeds)).sum(1)
    return {"setting": setting, "bytes": output.stat().st_size,
            "mean": float(cosines.mean()), "worst": float(cosines.min())}


def cells(row):
    return [row["setting"], f"{row['bytes'] / 1e6:.1f}",
            f"{row['mean']:.4f}", f"{row['worst']:.4f}"]


def main(program, options):
    source = models.shipped_networks(options.out / "models").get(NETWORK)
    try:
        import numpy as np
        import tokenizers
    except ImportError as problem:
        print(f"bench: low_rank: {problem}", file=sys.stderr)
        return 0
    if source is None:
        print(f"bench: low_rank: {NETWORK} is not here (bench/models.py says "
              "what ships it)", file=sys.stderr)
        return 0
    tokenizer = tokenizers.Tokenizer.from_file(
        str(source.with_name(f"{NETWORK}-tokenizer.json")))
    tokenizer.no_padding()
    texts = sentences()
    batches = [texts[i:i + BATCH] for i in range(0, len(texts), BATCH)]
    feeds = [feed_of(np, tokenizer, batch) for batch in batches]
    samples, compared = feeds[:SAMPLES], feeds[SAMPLES:SAMPLES + 2]
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        arguments = []
        for i, feed in enumerate(samples):
            np.savez(folder / f"{i}.npz", **feed)
            arguments += ["--feeds", str(folder / f"{i}.npz")]
        subprocess.run(
            [sys.executable, models.ROOT / "python/bin/onnx-memopt-moments",
             source, *arguments, "-o", folder / "moments"], check=True,
            stdout=subprocess.DEVNULL)
        before = vectors(np, source, compared)
        rows.append({"setting": "as it is", "bytes": source.stat().st_size,
                     "mean": 1.0, "worst": 1.0})
        for setting in SETTINGS[:1] if options.quick else SETTINGS:
            rows.append(row_of(np, program, source, setting, folder, compared,
                               before))
            print("  ".join(cells(rows[-1])), file=sys.stderr, flush=True)
    text = tables.write(
        options.out, "low_rank", machine.describe(program),
        [tables.markdown(["factorize", "MB", "cosine, mean", "worst"],
                         [cells(r) for r in rows])], {"rows": rows})
    print(text)
    return 0
