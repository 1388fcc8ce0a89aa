"""Reads captions and videos together (VideoBERT): moving digits, as words and as visual words.

python -m examples.video.video --output_dir=runs/video

A clip shows a digit that moves. Its frames become visual words by hierarchical k-means. A document is a caption and the
visual words of its clip. Masked words are learned from both, and the next-sentence head learns whether they belong
together.
"""

import json
import os
import random

import matplotlib.pyplot as plt
import numpy as np
from absl import app, flags
from PIL import Image, ImageDraw, ImageFont
from sklearn.cluster import KMeans

from examples.common import likeliest, run
from keras_bert_app import load_pretrained
from pipelines import BertTokenizer

DIGITS = "zero one two three four five six seven eight nine".split()
MOVES = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
SIZES = {"small": 12, "large": 20}
SPEEDS = {"slowly": 1, "quickly": 2}  # cells of _CELL pixels
_SIDE, _CELL, _FRAMES, _BRANCHES, _LEVELS = 32, 2, 8, 10, 3
_LENGTH = 24


def main(directory, num_clips=6000, steps=2000, num_seeds=3):
    os.makedirs(directory, exist_ok=True)
    draw = random.Random(0)
    clips = [clip(draw) for _ in range(num_clips + num_clips // 6)]
    captions, videos = [caption for caption, _ in clips], np.array([frames for _, frames in clips])
    centers = hierarchical_centers(videos[:num_clips].reshape(-1, _SIDE * _SIDE))
    words = visual_words(videos, centers)
    write_inputs(directory, captions[:num_clips], words[:num_clips], centers)
    scores = []
    for seed in range(1, num_seeds + 1):
        model, tokenizer = pretrain(directory, seed, steps)
        scores.append(score(model, tokenizer, captions[num_clips:], words[num_clips:]))
    report(directory, scores)
    draw_generated(f"{directory}/generated.png", model, tokenizer, captions[num_clips:], videos[num_clips:], centers)


def clip(draw):
    """(caption, frames float32 [_FRAMES, _SIDE x _SIDE]) of a digit that moves from a random place."""
    digit, move, size, speed = (draw.choice(list(names)) for names in (DIGITS, MOVES, SIZES, SPEEDS))
    caption = f"a {size} {digit} moves {move} {speed}"
    pixels, step = SIZES[size], SPEEDS[speed]
    cells = (_SIDE - pixels) // _CELL + 1
    x, y = draw.randrange(cells), draw.randrange(cells)
    frames = []
    for number in range(_FRAMES):
        image = Image.new("L", (_SIDE, _SIDE))
        # A digit that leaves on one side comes back on the other.
        moved = [start + number * step * way for start, way in zip((x, y), MOVES[move], strict=True)]
        place = [_CELL * (cell % cells) for cell in moved]
        font = ImageFont.load_default(size=pixels)
        ImageDraw.Draw(image).text(place, str(DIGITS.index(digit)), fill=255, font=font)
        frames.append(np.asarray(image, np.float32).ravel() / 255)
    return caption, np.array(frames)


def hierarchical_centers(frames, level=1):
    """The tree of k-means: list of (center, its own tree); see Sun et al. 2019, section 3.3."""
    if level > _LEVELS or len(frames) < _BRANCHES * 4:
        return []
    clusters = KMeans(_BRANCHES, n_init=1, random_state=level).fit(frames)
    return [
        (center, hierarchical_centers(frames[clusters.labels_ == number], level + 1))
        for number, center in enumerate(clusters.cluster_centers_)
    ]


def visual_words(videos, centers):
    """The word of each frame, such as v4.0.2: its way down the tree."""
    return [[word_of(frame, centers) for frame in frames] for frames in videos]


def word_of(frame, centers):
    numbers = []
    while centers:
        numbers.append(int(np.argmin([np.sum((frame - center) ** 2) for center, _ in centers])))
        centers = centers[numbers[-1]][1]
    return "v" + ".".join(map(str, numbers))


def center_of(word, centers):
    for number in map(int, word[1:].split(".")):
        center, centers = centers[number]
    return center


def write_inputs(directory, captions, words, centers):
    with open(f"{directory}/clips.txt", "w", encoding="utf-8") as file:
        file.writelines(f"{caption}\n{' '.join(video)}\n\n" for caption, video in zip(captions, words, strict=True))
    if not os.path.exists(f"{directory}/words.txt"):
        texts, vocab_file = f"{directory}/clips.txt", f"{directory}/words.txt"
        run("learn_vocab", tokenizer="symbols", input_files=texts, vocab_file=vocab_file)
    with open(f"{directory}/centers.txt", "w", encoding="utf-8") as file:
        for word in sorted({word for video in words for word in video}):
            center = center_of(word, centers)
            numbers = " ".join(f"{number:.3f}" for number in center / np.linalg.norm(center))
            file.write(f"{word} {numbers}\n")


def pretrain(directory, seed, steps):
    """Trains a model, or resumes it. Returns (BertPretrainer, tokenizer)."""
    workdir = f"{directory}/seed-{seed}"
    run(
        "pretrain",
        workdir=workdir,
        input_files=f"{directory}/clips.txt",
        vocab_file=f"{directory}/words.txt",
        given_vectors=f"{directory}/centers.txt",
        token_fusion="add",
        tokenizer="symbols",
        config="tiny",
        masked_lm_prob=0.5,
        short_seq_prob=0.0,
        max_seq_length=_LENGTH,
        global_batch_size=128,
        optimizer="muon",
        learning_rate=3e-3,
        num_train_steps=steps,
        seed=seed,
    )
    return load_pretrained(workdir), BertTokenizer.from_directory(workdir, special_tokens_in_text=True)


def score(model, tokenizer, captions, words):
    """Figures on clips that training has not seen: (from both, from one alone, by chance or by the most frequent)."""
    texts, videos = list(captions), [" ".join(video) for video in words]
    figures = {}

    def compared(name, truth, both, alone):
        shares = [np.mean(filled(model, tokenizer, *rows) == truth) for rows in (both, alone)]
        figures[name] = [*map(float, shares), max(map(truth.count, set(truth))) / len(truth)]

    for place, name in ((1, "size"), (2, "digit"), (4, "direction")):
        split = [caption.split() for caption in captions]
        hidden = [" ".join([*parts[:place], "[MASK]", *parts[place + 1 :]]) for parts in split]
        rows = (hidden, videos), (hidden, None)
        compared(f"{name} in the caption", [parts[place] for parts in split], *rows)
    hidden = [" ".join([video[0], *["[MASK]"] * (_FRAMES - 1)]) for video in words]
    compared("visual word of frame 2, after frame 1", [video[1] for video in words], (texts, hidden), (hidden, None))
    others = videos[1:] + videos[:1]
    pairs = [model(tokenizer.pack(texts, each, _LENGTH))["nsp_logits"] for each in (videos, others)]
    right, wrong = (np.argmax(logits, axis=1) for logits in pairs)
    figures["caption and video belong together"] = [float(np.mean([right == 0, wrong == 1])), None, 0.5]
    return figures


def filled(model, tokenizer, first, second, number=0):
    """The likeliest word for mask `number` of each row."""
    rows = tokenizer.pack(first, second, _LENGTH)
    return likeliest(model, tokenizer, rows, 1, number)[:, 0]


def report(directory, scores):
    print("\n| share of right answers on new clips | from both | from one alone | most frequent |\n|---|---|---|---|")
    for name in scores[0]:
        columns = [[figures[name][number] for figures in scores] for number in range(3)]
        cells = [f"{np.mean(c):.3f} ({min(c):.3f} to {max(c):.3f})" if None not in c else "" for c in columns]
        print(f"| {name} | {' | '.join(cells)} |")
    with open(f"{directory}/results.json", "w", encoding="utf-8") as file:
        json.dump(scores, file, indent=1)


def draw_generated(path, model, tokenizer, captions, videos, centers, num_clips=4):
    """Draws clips beside the frames that the model writes for their captions, from the middle to both ends."""
    figure, axes = plt.subplots(2 * num_clips, _FRAMES, figsize=(_FRAMES, 2.3 * num_clips))
    for number, caption in enumerate(captions[:num_clips]):
        words = ["[MASK]"] * _FRAMES
        for place in sorted(range(_FRAMES), key=lambda place: abs(place - _FRAMES // 2)):
            before = words[:place].count("[MASK]")
            words[place] = filled(model, tokenizer, [caption], [" ".join(words)], before)[0]
        frames = [center_of(word, centers) if word[0] == "v" else np.zeros(_SIDE**2) for word in words]
        for row, images in ((2 * number, videos[number]), (2 * number + 1, frames)):
            for axis, image in zip(axes[row], images, strict=True):
                axis.imshow(image.reshape(_SIDE, _SIDE), cmap="gray", vmin=0, vmax=1)
                axis.axis("off")
        axes[2 * number, 0].set_title(f"{caption}: the clip, and frames from the caption", loc="left", fontsize=9)
    figure.savefig(path, dpi=100, bbox_inches="tight")


if __name__ == "__main__":
    flags.DEFINE_string("output_dir", "runs/video", "Where texts, runs and results go.")
    flags.DEFINE_integer("num_clips", 6000, "Clips for training.")
    flags.DEFINE_integer("steps", 2000, "Training steps of a run.")
    flags.DEFINE_integer("num_seeds", 3, "Runs.")
    values = flags.FLAGS
    app.run(lambda _: main(values.output_dir, values.num_clips, values.steps, values.num_seeds))
