"""What networks that packages ship take for real: a page or a line of text as an
image, token ids of sentences, a voice with the state of silence. And noise of the
same shapes.

    sample_inputs.py MODEL REAL.npz NOISE.npz

writes both, and nothing of a real input where it cannot be made here. Prints the
shapes by name and the sizes of named dimensions as JSON. All of it is made, and the same each time: pages are drawn
with Pillow's own font, a voice is pulses through three resonances, as a vowel is,
and words are cut into what the tokenizer beside the network knows.
"""

import json
import pathlib
import sys

import ort_memory

TEXT = ("A memory planner decides which tensor lives when. What dies early leaves "
        "its place to what comes later, so that the peak of a run falls. Numbers "
        "of sixteen bits take half the place of those of thirty two: 65504 is the "
        "largest, and about 0.00006 the smallest that keeps all its digits. "
        "Chapter 4 compares both on pages such as this one, on single lines and "
        "on sentences; see figure 12 (b) and table 3.").split()
# Height and width in pixels of what is drawn, and of its letters; words a line.
PAGE = ((640, 640), 24, 7)
LINE = ((48, 320), 26, 4)
# The file has one name for both sides.
SIGN = ((48, 48), 20, 1)
# Of a vowel: formants and their widths, and the pitch, in Hz.
FORMANTS = ((700, 90), (1220, 110), (2600, 170))
PITCH = 120
RATE = 16000
# 512 samples behind the last 64 of those before them.
FRAME = 576
SENTENCES = 4
TOKENS = 64
VOCABULARY = 30000  # ids of noise are below it


def drawn(np, what):
    """Dark on paper, [1, 3, height, width] from -1 to 1."""
    from PIL import Image, ImageDraw, ImageFont
    (height, width), points, words = what
    image = Image.new("RGB", (width, height), (250, 248, 240))
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(points)
    step = points * 3 // 2
    for i in range(max(1, (height - points) // step)):
        line = (TEXT * 2)[words * i:words * (i + 1)]
        draw.text((width // 20, (height % step) // 2 + step * i),
                  " ".join(line), (20, 20, 30), font)
    pixels = np.asarray(image, np.float32) / 127.5 - 1
    return pixels.transpose(2, 0, 1)[None].copy()


def voice(np):
    """The middle of a second of air pulses through resonances."""
    sound = np.zeros(RATE)
    sound[::RATE // PITCH] = 1
    for frequency, width in FORMANTS:
        radius = np.exp(-np.pi * width / RATE)
        turn = 2 * radius * np.cos(2 * np.pi * frequency / RATE)
        for i in range(2, RATE):
            sound[i] += turn * sound[i - 1] - radius ** 2 * sound[i - 2]
    begin = RATE // 2
    frame = sound[begin:begin + FRAME] / np.abs(sound).max()
    return (frame / 2).astype(np.float32)[None]


def word_pieces(vocabulary, word):
    """The longest pieces from the left, as BERT's tokenizer cuts."""
    begin, pieces = 0, []
    while begin < len(word):
        for end in range(len(word), begin, -1):
            piece = ("##" if begin else "") + word[begin:end]
            if piece in vocabulary:
                pieces.append(vocabulary[piece])
                break
        else:
            return [vocabulary["[UNK]"]]
        begin = end
    return pieces


def sentences(np, folder):
    """Rows of token ids by the tokenizer in this folder."""
    path = next(folder.glob("*tokenizer.json"))
    vocabulary = json.loads(path.read_text("utf-8"))["model"]["vocab"]
    rows = []
    for i in range(SENTENCES):
        first = len(TEXT) * i // SENTENCES
        words = TEXT[first:] + TEXT[:first]
        ids = [piece for word in words
               for piece in word_pieces(vocabulary, word.lower().strip(".,:;()"))]
        rows.append([vocabulary["[CLS]"], *ids[:TOKENS - 2],
                     vocabulary["[SEP]"]])
    return np.array(rows, np.int64)


def text_feeds(np, model, noise):
    ids = np.random.default_rng(0).integers(
        0, VOCABULARY, (SENTENCES, TOKENS)) if noise else sentences(
            np, model.parent)
    return {"input_ids": ids, "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids)}


def voice_feeds(np, model, noise):
    del model
    rng = np.random.default_rng(0)
    state = np.zeros((2, 1, 128), np.float32)
    if noise:
        state = rng.uniform(-1, 1, state.shape).astype(np.float32)
        sound = rng.uniform(-1, 1, (1, FRAME)).astype(np.float32)
    else:
        sound = voice(np)
    return {"input": sound, "state": state, "sr": np.array(RATE)}


def image_feeds(what):
    def feeds(np, model, noise):
        del model
        if not noise:
            return {"x": drawn(np, what)}
        rng = np.random.default_rng(0)
        return {"x": rng.uniform(-1, 1, (1, 3, *what[0])).astype(np.float32)}
    return feeds


# By a part of the network's name.
NETWORKS = {"PP-OCRv4_det": image_feeds(PAGE), "PP-OCRv4_rec": image_feeds(LINE),
            "ppocr_mobile_v2.0_cls": image_feeds(SIGN),
            "silero_vad": voice_feeds, "all-minilm-l6-v2": text_feeds}


def named_sizes(model, feeds):
    return {name: size
            for value in ort_memory.quiet_session(model).get_inputs()
            for name, size in zip(value.shape, feeds[value.name].shape)
            if isinstance(name, str)}


def main(model, real, noise):
    import numpy as np
    model = pathlib.Path(model)
    make = next(make for part, make in NETWORKS.items() if part in model.stem)
    feeds = make(np, model, True)
    np.savez(noise, **feeds)
    print(json.dumps([{name: value.shape for name, value in feeds.items()},
                      named_sizes(model, feeds)]))
    try:
        np.savez(real, **make(np, model, False))
    except ImportError as problem:
        print(f"bench: no real input: {problem}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
