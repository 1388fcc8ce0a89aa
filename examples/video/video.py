"""Reads captions and videos together (VideoBERT): moving digits, as words and as visual words.

python -m examples.video.video --output_dir=runs/video

A clip shows a digit that moves. Its frames become visual words by hierarchical k-means. A document is a caption and the
visual words of its clip. Masked words are learned from both, and the next-sentence head learns whether they belong
together.
"""

import collections
import os
import random

import matplotlib.pyplot as plt
import numpy as np
from absl import flags
from sklearn.cluster import KMeans

from examples.common import keep_scores, keep_settings, likeliest, run, run_with_flags
from examples.video.clips import FRAMES, SIDE, two_parts
from keras_bert_app import load_pretrained
from pipelines import BertTokenizer

_BRANCHES, _LEVELS, _LENGTH = 10, 3, 24


def main(directory, num_clips=6000, steps=2000, num_seeds=3):
    keep_settings(directory, num_clips=num_clips, steps=steps)
    captions, videos, new_captions, new_videos = two_parts(num_clips, num_clips // 6)
    centers = hierarchical_centers(videos.reshape(-1, SIDE * SIDE))
    words, new_words = visual_words(videos, centers), visual_words(new_videos, centers)
    write_inputs(directory, captions, words, centers)
    scores = []
    for seed in range(1, num_seeds + 1):
        model, tokenizer = pretrain(directory, seed, steps)
        scores.append(score(model, tokenizer, new_captions, new_words, captions, words))
    report(directory, scores)
    draw_generated(f"{directory}/generated.png", model, tokenizer, new_captions, new_videos, centers)


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
    draw = random.Random(2)
    with open(f"{directory}/clips.txt", "w", encoding="utf-8") as file:
        for caption, video in zip(captions, words, strict=True):
            # A part of the clip too: where few frames are visible, the caption says more than they do.
            start, length = draw.randrange(FRAMES), draw.randint(1, 3)
            part = " ".join(video[start : start + length])
            file.write(f"{caption}\n{' '.join(video)}\n\n{caption}\n{part}\n\n")
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
        masked_lm_prob=0.25,
        short_seq_prob=0.0,
        max_seq_length=_LENGTH,
        global_batch_size=128,
        optimizer="muon",
        learning_rate=3e-3,
        num_train_steps=steps,
        seed=seed,
    )
    return load_pretrained(workdir), BertTokenizer.from_directory(workdir, special_tokens_in_text=True)


def score(model, tokenizer, captions, words, training_captions, training_words):
    """Figures on new clips: (from both, from one with the other one hidden, by the most frequent answer)."""
    videos, hidden_video = [" ".join(video) for video in words], " ".join(["[MASK]"] * FRAMES)
    figures, split = {}, [caption.split() for caption in captions]

    def compared(name, truth, both, alone, frequent, number=0):
        found = [filled(model, tokenizer, *rows, number) for rows in (both, alone)]
        figures[name] = [float(np.mean(answers == truth)) for answers in (*found, frequent)]

    for place, name in ((1, "size"), (2, "digit"), (4, "direction"), (5, "speed")):
        truth = [parts[place] for parts in split]
        hidden = [" ".join([*parts[:place], "[MASK]", *parts[place + 1 :]]) for parts in split]
        frequent = np.array(max(set(truth), key=truth.count))
        compared(f"{name} in the caption", truth, (hidden, videos), (hidden, [hidden_video] * len(hidden)), frequent)
    followers = collections.defaultdict(collections.Counter)
    for video in training_words:
        followers[video[0]][video[1]] += 1
    frequent = np.array([followers[video[0]].most_common(1)[0][0] if followers[video[0]] else "" for video in words])
    firsts, no_caption = [f"{video[0]} [MASK]" for video in words], [" ".join(["[MASK]"] * 6)] * len(words)
    truth = [video[1] for video in words]
    compared("visual word of frame 2, after frame 1", truth, (captions, firsts), (no_caption, firsts), frequent, -1)
    seen = collections.defaultdict(collections.Counter)  # visual word -> what training shows in it
    for caption, video in zip(training_captions, training_words, strict=True):
        for word in video:
            seen[word][" ".join(caption.split()[1:3])] += 1
    truth = [" ".join(parts[1:3]) for parts in split]
    top = {word: counts.most_common(1)[0][0] for word, counts in seen.items()}
    firsts = ["[MASK]"] * len(truth)
    found = [filled(model, tokenizer, texts, firsts, -1) for texts in (captions, no_caption)]
    shown = [np.array([top.get(word, "") for word in words_found]) for words_found in found]
    frequent = max(set(truth), key=truth.count)
    shares = [float(np.mean(answers == truth)) for answers in (*shown, np.array(frequent))]
    figures["size and digit of a frame that is written"] = shares
    others = videos[1:] + videos[:1]
    pairs = [model(tokenizer.pack(captions, each, _LENGTH))["nsp_logits"] for each in (videos, others)]
    right, wrong = (np.argmax(logits, axis=1) for logits in pairs)
    figures["caption and video belong together"] = [float(np.mean([right == 0, wrong == 1])), None, 0.5]
    unique = list(dict.fromkeys(captions))
    figures["different videos written"] = [len(set(map(tuple, written(model, tokenizer, unique)))), len(unique)]
    return figures


def filled(model, tokenizer, first, second, number=0):
    """The likeliest word for mask `number` of each row."""
    rows = tokenizer.pack(first, second, _LENGTH)
    return likeliest(model, tokenizer, rows, 1, number)[:, 0]


def written(model, tokenizer, captions):
    """The visual words that the model writes for captions, one frame after the other: [captions, FRAMES]."""
    words = [[] for _ in captions]
    for _ in range(FRAMES):
        rows = [" ".join([*video, "[MASK]"]) for video in words]
        for video, word in zip(words, filled(model, tokenizer, captions, rows), strict=True):
            video.append(word)
    return words


def report(directory, scores):
    print("\n| share of right answers on new clips | from both | the other one hidden | most frequent |")
    print("|---|---|---|---|")
    count, captions = zip(*[figures.pop("different videos written") for figures in scores], strict=True)
    for name in scores[0]:
        columns = [[figures[name][number] for figures in scores] for number in range(3)]
        cells = [f"{np.mean(c):.3f} ({min(c):.3f} to {max(c):.3f})" if None not in c else "" for c in columns]
        print(f"| {name} | {' | '.join(cells)} |")
    print(f"different videos that were written for {captions[0]} captions: {', '.join(map(str, count))}")
    keep_scores(f"{directory}/results.json", {"scores": scores, "different videos written": count})


def draw_generated(path, model, tokenizer, captions, videos, centers, num_clips=4):
    """Draws clips beside the frames that the model writes for their captions."""
    figure, axes = plt.subplots(2 * num_clips, FRAMES, figsize=(FRAMES, 2.3 * num_clips))
    for number, words in enumerate(written(model, tokenizer, captions[:num_clips])):
        frames = [center_of(word, centers) if word[0] == "v" else np.zeros(SIDE**2) for word in words]
        for row, images in ((2 * number, videos[number]), (2 * number + 1, frames)):
            for axis, image in zip(axes[row], images, strict=True):
                axis.imshow(image.reshape(SIDE, SIDE), cmap="gray", vmin=0, vmax=1)
                axis.axis("off")
        title = f"{captions[number]}: the clip, and frames from the caption"
        axes[2 * number, 0].set_title(title, loc="left", fontsize=9)
    figure.savefig(path, dpi=100, bbox_inches="tight")


if __name__ == "__main__":
    flags.DEFINE_string("output_dir", "runs/video", "Where texts, runs and results go.")
    # There are 13,600 different clips. The new ones must differ from those of training.
    flags.DEFINE_integer("num_clips", 6000, "Clips for training.", lower_bound=6, upper_bound=20_000)
    flags.DEFINE_integer("steps", 2000, "Training steps of a run.", lower_bound=1)
    flags.DEFINE_integer("num_seeds", 3, "Runs.", lower_bound=1)
    run_with_flags(main, "num_clips", "steps", "num_seeds")
