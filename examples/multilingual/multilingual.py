"""Trains one model on English and Chinese, and tags Chinese and German with a tagger that learned English (M-BERT).

python -m examples.multilingual.multilingual --english='en/*' --chinese='zh/*' --tagging_dir=EWT \\
    --treebanks=zh_gsdsimp-ud-test.conllu,de_gsd-ud-test.conllu --parallel=xquad.en.json,xquad.zh.json,xquad.de.json

EWT has en_ewt-ud-train.conllu, en_ewt-ud-dev.conllu and en_ewt-ud-test.conllu. The files of --parallel are XQuAD: their
paragraphs are translations of each other.
"""

import collections
import json
import os
import sys

import numpy as np
from absl import flags

from examples.common import (
    define_precision,
    difference,
    keep_settings,
    need_files,
    run,
    run_with_flags,
    small_pretraining,
    spread,
)
from keras_bert_app import BertConfig, FinetunedRun, finetune, load_embedder

_LENGTH = 64  # pieces of a row; pre-training knows no further positions
# Exponent of the sampling of the two languages: 1 takes them by their size, 0.5 makes the smaller one more frequent.
KINDS = {"English only": None, "both, exponent 1": 1.0, "both, exponent 0.7": 0.7, "both, exponent 0.5": 0.5}


def main(
    directory,
    english,
    chinese,
    tagging_dir,
    treebanks,
    parallel,
    steps=4000,
    num_seeds=3,
    size="mini",
    precision="auto",
):
    texts = {"english": english, "chinese": chinese, "tagging_dir": tagging_dir}
    keep_settings(directory, steps=steps, size=size, precision=precision, **texts)
    files = [f"{tagging_dir}/en_ewt-ud-test.conllu", *treebanks]
    need_files(*(f"{tagging_dir}/en_ewt-ud-{part}.conllu" for part in ("train", "dev")), *files)
    texts = [paragraphs(path) for path in parallel]
    if len(set(map(len, texts))) > 1:
        counts = ", ".join(str(len(text)) for text in texts)
        sys.exit(f"--parallel: the files have {counts} paragraphs; expected translations of the same paragraphs")
    vocab_file = f"{directory}/vocab.txt"
    if not os.path.exists(vocab_file):
        inputs = f"{english},{chinese}"
        run("learn_vocab", input_files=inputs, vocab_file=vocab_file, vocab_size=12_000, do_lower_case=False)
    for language, inputs in (("en", english), ("zh", chinese)):
        if not os.path.exists(f"{directory}/{language}/manifest.json"):
            run("prepare_corpus", input_files=inputs, output_dir=f"{directory}/{language}")
    results = {}
    for number, (kind, exponent) in enumerate(KINDS.items()):
        results[kind] = {"share of Chinese": chinese_share(directory, exponent), "accuracy": [], "agreement": []}
        for seed in range(1, num_seeds + 1):
            model, tagger = f"{directory}/model-{number}-{seed}", f"{directory}/tagger-{number}-{seed}"
            pretrain(directory, model, exponent, size, steps, seed, precision)
            given = {"seed": seed, "bias_correction": True, "max_seq_length": _LENGTH, "precision": precision}
            finetune(tagger, "pos", tagging_dir, model, **given)
            accuracy, constant = zip(*(accuracies(tagger, path) for path in files), strict=True)
            results[kind]["accuracy"].append(accuracy)
            layers = range(BertConfig.from_json_file(f"{model}/config.json").num_hidden_layers + 1)
            results[kind]["agreement"].append([agreement(model, layer, texts) for layer in layers])
    results["the most frequent tag"] = {"accuracy": [constant], "agreement": []}
    with open(f"{directory}/results.json", "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
    print("\n".join(tables(results, files, parallel, len(texts[0]))))


def pretrain(directory, workdir, exponent, size, steps, seed, precision):
    """Trains a masked language model, or resumes it. All kinds have the same vocabulary, size, steps and seed."""
    corpora = f"{directory}/en" if exponent is None else f"{directory}/en,{directory}/zh"
    mixed = {} if exponent is None else {"sampling_exponent": exponent}
    run(
        "pretrain",
        workdir=workdir,
        corpus_dir=corpora,
        vocab_file=f"{directory}/vocab.txt",
        config=size,
        do_lower_case=False,
        max_seq_length=_LENGTH,
        global_batch_size=64,
        **small_pretraining(steps, precision),
        seed=seed,
        **mixed,
    )


def paragraphs(path):
    """The paragraphs of a file in SQuAD's layout."""
    with open(path, encoding="utf-8") as file:
        try:
            return [part["context"] for article in json.load(file)["data"] for part in article["paragraphs"]]
        except (ValueError, KeyError, TypeError):
            sys.exit(f"--parallel: {path} is not in the layout of SQuAD; give files of XQuAD")


def accuracies(tagger, path):
    """(share of words of a treebank with the right tag, share of its words with its most frequent tag)."""
    scores, sentences, _, _ = FinetunedRun(tagger).evaluate(path)
    counts = collections.Counter(tag for sentence in sentences for tag in sentence.tags)
    return scores["accuracy"], max(counts.values()) / counts.total()


def agreement(model, layer, texts):
    """For each language after the first: how often the nearest paragraph of the first language is the translation.

    Vectors are means over the first pieces, minus the mean of the language, as in Pires et al. 2019.
    """
    embed = load_embedder(model, layer=layer, max_seq_length=_LENGTH)
    vectors = [embed(paragraphs) for paragraphs in texts]
    vectors = [rows - rows.mean(axis=0) for rows in vectors]
    first, *others = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in vectors)
    return [float(np.mean((rows @ first.T).argmax(axis=1) == np.arange(len(rows)))) for rows in others]


def chinese_share(directory, exponent):
    """The share of Chinese in the examples of pre-training. Each language counts as its bytes to the power exponent."""
    sizes = []
    for language in ("en", "zh"):
        with open(f"{directory}/{language}/manifest.json", encoding="utf-8") as file:
            sizes.append(json.load(file)["train"]["bytes"])
    return 0.0 if exponent is None else sizes[1] ** exponent / sum(size**exponent for size in sizes)


def differences(columns, empty=""):
    """Yields the gain of each kind with both languages, over seeds. columns: kind -> [columns, seeds]."""
    first, *others = columns
    for kind in others:
        cells = [difference(one, other, 3) for one, other in zip(columns[kind], columns[first], strict=True)]
        yield f"| {kind}, minus {first} |{empty} {' | '.join(cells)} |"


def tables(results, files, parallel, paragraphs):
    """Yields the accuracies on each treebank, and the agreement of each layer. paragraphs: their number in a file."""
    head = ["share of right tags", "Chinese in pre-training", *map(os.path.basename, files)]
    yield f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}"
    for kind, figures in results.items():
        share = f" {figures['share of Chinese']:.3f} |" if kind in KINDS else " |"
        yield f"| {kind} |{share} {' | '.join(spread(c, 3) for c in zip(*figures['accuracy'], strict=True))} |"
    yield from differences({kind: np.array(results[kind]["accuracy"]).T for kind in KINDS}, " |")
    for number, path in enumerate(parallel[1:]):
        rows = {
            kind: np.array(figures["agreement"])[:, :, number]
            for kind, figures in results.items()
            if figures["agreement"]
        }
        layers = range(next(iter(rows.values())).shape[1])
        head = [f"{os.path.basename(path)}: the nearest is the translation", *(f"layer {layer}" for layer in layers)]
        yield f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}"
        yield f"| chance |{f' {1 / paragraphs:.3f} |' * len(layers)}"
        for kind, shares in rows.items():
            yield f"| {kind} | {' | '.join(spread(column, 3) for column in shares.T)} |"
        yield from differences({kind: shares.T for kind, shares in rows.items()})


if __name__ == "__main__":
    flags.DEFINE_string("output_dir", "runs/multilingual", "Where vocabulary, models, runs and results go.")
    flags.DEFINE_string("english", None, "Text files in English.", required=True)
    flags.DEFINE_string("chinese", None, "Text files in Chinese.", required=True)
    flags.DEFINE_string("tagging_dir", None, "Folder of the English treebank.", required=True)
    flags.DEFINE_list("treebanks", None, "Treebanks that are scored.", required=True)
    flags.DEFINE_list("parallel", None, "Files of translated paragraphs, the English one first.", required=True)
    flags.DEFINE_integer("steps", 4000, "Steps of pre-training.", lower_bound=1)
    flags.DEFINE_integer("num_seeds", 3, "Runs of each kind.", lower_bound=1)
    define_precision()
    names = ("english", "chinese", "tagging_dir", "treebanks", "parallel", "steps", "num_seeds", "precision")
    run_with_flags(main, *names)
