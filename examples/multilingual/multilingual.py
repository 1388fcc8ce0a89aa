"""Trains one model on English and Chinese, and tags Chinese and German with a tagger that learned English (M-BERT).

python -m examples.multilingual.multilingual --english='en/*' --chinese='zh/*' --tagging_dir=EWT \\
    --treebanks=zh_gsdsimp-ud-test.conllu,de_gsd-ud-test.conllu --parallel=xquad.en.json,xquad.zh.json,xquad.de.json

EWT has en_ewt-ud-train.conllu, en_ewt-ud-dev.conllu and en_ewt-ud-test.conllu. The files of --parallel are XQuAD: their
paragraphs are translations of each other.
"""

import json
import os
import re
import sys

import numpy as np
from absl import flags
from sklearn.feature_extraction.text import TfidfVectorizer

from examples.common import (
    define_precision,
    keep_scores,
    keep_settings,
    need_files,
    once,
    run,
    run_with_flags,
    small_pretraining,
)
from examples.multilingual.language_tables import agreement_table, tagging_table
from keras_bert_app import BertConfig, FinetunedRun, finetune, load_embedder
from pipelines import BertTokenizer

_LENGTH = 64  # pieces of a row; pre-training knows no further positions
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
UNTRAINED = "random weights"  # one step, whose learning rate is 0
# Exponent of the sampling of the two languages: 1 takes them by their size, 0.5 makes the smaller one more frequent.
KINDS = {
    UNTRAINED: 1.0,
    "English only": None,
    "both, exponent 1": 1.0,
    "both, exponent 0.7": 0.7,
    "both, exponent 0.5": 0.5,
}


def main(
    directory,
    english,
    chinese,
    tagging_dir,
    treebanks,
    parallel,
    steps=1000,
    num_seeds=3,
    size="mini",
    precision="auto",
):
    inputs = {"english": english, "chinese": chinese, "tagging_dir": tagging_dir, "parallel": parallel}
    files = [f"{tagging_dir}/en_ewt-ud-test.conllu", *treebanks]
    keep_settings(directory, steps=steps, size=size, precision=precision, files=files, **inputs)
    need_files(*(f"{tagging_dir}/en_ewt-ud-{part}.conllu" for part in ("train", "dev")), *files)
    texts = [paragraphs(path) for path in parallel]
    if len(texts) < 2:
        sys.exit(f"--parallel={','.join(parallel)}: expected two files or more, the English one first")
    if len(set(map(len, texts))) > 1:
        counts = ", ".join(str(len(text)) for text in texts)
        sys.exit(f"--parallel: the files have {counts} paragraphs; expected translations of the same paragraphs")
    prepare(directory, english, chinese)
    right, agreed = {kind: [] for kind in KINDS}, {kind: [] for kind in KINDS}
    for number, kind in enumerate(KINDS):
        for seed in range(1, num_seeds + 1):
            model, tagger = f"{directory}/model-{number}-{seed}", f"{directory}/tagger-{number}-{seed}"
            pretrain(directory, model, KINDS[kind], size, 1 if kind == UNTRAINED else steps, seed, precision)
            given = {"seed": seed, "bias_correction": True, "max_seq_length": _LENGTH, "precision": precision}
            finetune(tagger, "pos", tagging_dir, model, learning_rate=4e-4, **given)
            columns = once(f"{tagger}-tags.json", lambda tagger=tagger: tagged(tagger, files))
            right[kind].append([column["right"] for column in columns])
            agreed[kind].append(once(f"{model}-nearest.json", lambda model=model: agreement(model, texts)))
    shares = {kind: chinese_share(directory, exponent) for kind, exponent in KINDS.items() if kind != UNTRAINED}
    lines = list(tagging_table(right, columns, shares))
    without = shared_pieces(BertTokenizer.from_directory(model), texts)
    for number, path in enumerate(parallel[1:]):
        hits = {kind: np.array(rows)[:, :, number] for kind, rows in agreed.items()}  # [seeds, layers, paragraphs]
        lines += agreement_table(os.path.basename(path), hits, without[number])
    print("\n".join(lines))
    scores = {kind: [[float(np.mean(column)) for column in seed] for seed in rows] for kind, rows in right.items()}
    nearest = {kind: np.mean(rows, axis=3).tolist() for kind, rows in agreed.items()}  # [seeds, layers, languages]
    names = [column["name"] for column in columns]
    keep_scores(
        f"{directory}/results.json", {"columns": names, "accuracy": scores, "agreement": nearest, "table": lines}
    )


def prepare(directory, english, chinese):
    """Learns the vocabulary of both languages, and prepares their texts."""
    if not os.path.exists(f"{directory}/vocab.txt"):
        inputs, vocab_file = f"{english},{chinese}", f"{directory}/vocab.txt"
        run("learn_vocab", input_files=inputs, vocab_file=vocab_file, vocab_size=12_000, do_lower_case=False)
    for language, inputs in (("en", english), ("zh", chinese)):
        if not os.path.exists(f"{directory}/{language}/manifest.json"):
            run("prepare_corpus", input_files=inputs, output_dir=f"{directory}/{language}")


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


def tagged(tagger, files):
    """The columns of the treebanks: all words, and those with Chinese characters if there are some.

    Each is a dict with its name, and for each word whether its tag is right, its sentence and its tag.
    """
    run_of, columns = FinetunedRun(tagger), []
    for path in files:
        _, sentences, _, predictions = run_of.evaluate(path)
        columns += columns_of(path, sentences, predictions)
    return columns


def columns_of(path, sentences, predictions):
    """Yields the columns of one treebank."""
    words = [
        (number, word, tag, tag == given)
        for number, (sentence, answer) in enumerate(zip(sentences, predictions, strict=True))
        for word, tag, given in zip(sentence.words, sentence.tags, answer["tags"], strict=True)
    ]
    groups = {os.path.basename(path): words}
    if chinese := [row for row in words if _CHINESE.search(row[1])]:
        groups[f"{os.path.basename(path)}, words with Chinese characters"] = chinese
    for name, rows in groups.items():
        numbers, _, tags, right = zip(*rows, strict=True)
        yield {"name": name, "sentences": numbers, "tags": tags, "right": right}


def agreement(model, texts):
    """For each layer and each language after the first, whether a paragraph's nearest original is the right one.

    Vectors are means over the first pieces, minus the mean of the language, as in Pires et al. 2019.
    """
    by_layer = []
    for layer in range(BertConfig.from_json_file(f"{model}/config.json").num_hidden_layers + 1):
        embed = load_embedder(model, layer=layer, max_seq_length=_LENGTH)
        by_layer.append(nearest([embed(paragraphs) for paragraphs in texts]))
    return by_layer


def shared_pieces(tokenizer, texts):
    """The same without a model: bags of the first pieces, weighted by TF-IDF."""
    rows = [[list(row)[: _LENGTH - 2] for row in tokenizer.tokenize(paragraphs).to_list()] for paragraphs in texts]
    weights = TfidfVectorizer(analyzer=lambda row: row).fit([row for language in rows for row in language])
    return nearest([weights.transform(language).toarray() for language in rows], centred=False)


def nearest(vectors, centred=True):
    """[languages after the first, paragraphs]: whether the nearest vector of the first language has the same number."""
    vectors = [rows - rows.mean(axis=0) if centred else rows for rows in vectors]
    first, *others = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9) for rows in vectors)
    return [((rows @ first.T).argmax(axis=1) == np.arange(len(rows))).tolist() for rows in others]


def chinese_share(directory, exponent):
    """The share of Chinese in the examples of pre-training. Each language counts as its bytes to the power exponent."""
    sizes = []
    for language in ("en", "zh"):
        with open(f"{directory}/{language}/manifest.json", encoding="utf-8") as file:
            sizes.append(json.load(file)["train"]["bytes"])
    return 0.0 if exponent is None else sizes[1] ** exponent / sum(size**exponent for size in sizes)


if __name__ == "__main__":
    flags.DEFINE_string("output_dir", "runs/multilingual", "Where vocabulary, models, runs and results go.")
    flags.DEFINE_string("english", None, "Text files in English.", required=True)
    flags.DEFINE_string("chinese", None, "Text files in Chinese.", required=True)
    flags.DEFINE_string("tagging_dir", None, "Folder of the English treebank.", required=True)
    flags.DEFINE_list("treebanks", None, "Treebanks that are scored.", required=True)
    flags.DEFINE_list("parallel", None, "Files of translated paragraphs, the English one first.", required=True)
    flags.DEFINE_integer("steps", 1000, "Steps of pre-training.", lower_bound=1)
    flags.DEFINE_integer("num_seeds", 3, "Runs of each kind.", lower_bound=1)
    define_precision()
    names = ("english", "chinese", "tagging_dir", "treebanks", "parallel", "steps", "num_seeds", "precision")
    run_with_flags(main, *names)
