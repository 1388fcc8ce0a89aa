"""Hides Chinese characters, words, or words and entities in pre-training, and compares what is learned (ERNIE).

python -m examples.ernie_masking.ernie_masking --wiki='zhwiki/*/*' --sentiment_dir=chnsenticorp \\
    --entities_dir=peopledaily --output_dir=runs/ernie_masking

The files of --wiki are what wikiextractor writes. Words are those of --words_file, by default of the package jieba.
Entities are titles of articles. --sentiment_dir has train.tsv, dev.tsv and test.tsv with label and text_a.
--entities_dir has train.txt and dev.txt in CoNLL columns.
"""

import collections
import json
import os
import re
import sys

import numpy as np
from absl import flags

from examples.common import (
    define_precision,
    digest,
    keep_scores,
    keep_settings,
    minutes,
    need_files,
    once,
    read_articles,
    run,
    run_with_flags,
    small_pretraining,
)
from examples.ernie_masking.hidden_titles import LONGEST, drawn_mentions
from examples.ernie_masking.masking_table import columns_of, table
from keras_bert_app import finetune, load_pretrained
from pipelines import BertTokenizer

_CHINESE = re.compile(r"[\u4e00-\u9fff]{2,10}")
_LENGTH = 128
KINDS = ("characters", "words", "words and entities")


def main(
    directory,
    wiki,
    sentiment_dir,
    entities_dir,
    words_file="",
    steps=1000,
    num_seeds=3,
    num_mentions=2000,
    size="mini",
    precision="auto",
):
    need_files(*(f"{entities_dir}/{part}.txt" for part in ("train", "dev")))
    need_files(*(f"{sentiment_dir}/{part}.tsv" for part in ("train", "dev", "test")))
    articles = read_articles(wiki)
    inputs = {"articles": digest(articles), "words_file": words_file}
    inputs |= {"sentiment_dir": sentiment_dir, "entities_dir": entities_dir}
    settings = {"steps": steps, "num_mentions": num_mentions, "size": size, "precision": precision}
    keep_settings(directory, **inputs, **settings)
    sentiment_dir = without_overlap(directory, sentiment_dir)
    held_out, training = articles[::4], [article for number, article in enumerate(articles) if number % 4]
    titles = {title for title, _ in articles if _CHINESE.fullmatch(title)}
    words = write_inputs(directory, training, titles, words_file)
    mentions = drawn_mentions(held_out, training, titles, words, num_mentions)
    scores, right = {kind: collections.defaultdict(list) for kind in KINDS}, {kind: [] for kind in KINDS}
    for number, kind in enumerate(KINDS):
        for seed in range(1, num_seeds + 1):
            model = f"{directory}/model-{number}-{seed}"
            pretrain(directory, model, number, size, steps, seed, precision)
            scores[kind]["minutes"].append(minutes(model))
            answers = once(f"{model}-cloze.json", lambda model=model: cloze(model, mentions))
            right[kind].append([answer == name for (_, _, name, _), answer in zip(mentions, answers, strict=True)])
            for name, done in tasks(model, sentiment_dir, entities_dir, seed, precision):
                scores[kind][name].append(done["reported"]["score"])
                scores[kind][f"baseline of {name}"] = [done["baseline"]["score"]]
    columns = columns_of(scores, right, mentions, [name in words for _, _, name, _ in mentions])
    lines = list(table(columns, {kind: scores[kind]["minutes"] for kind in KINDS}))
    print("\n".join(lines))
    means = {name: {kind: rows[kind].mean(axis=1).tolist() for kind in KINDS} for name, (_, rows, _) in columns.items()}
    keep_scores(f"{directory}/results.json", {**means, "table": lines})


def words_of(training, words_file):
    """The words of a file, or those that jieba finds 5 times in the articles."""
    if words_file:
        with open(words_file, encoding="utf-8") as lines:
            return {line.split()[0] for line in lines if line.strip()}
    try:
        import jieba
    except ImportError:
        sys.exit("jieba is not installed: pip install -r requirements-chinese.txt, or give --words_file")
    counts = collections.Counter(word for _, text in training for word in jieba.cut(text))
    return {word for word, count in counts.items() if count >= 5}


def write_inputs(directory, training, titles, words_file):
    """Writes the text, its vocabulary, and a list of units for each kind: words, and words with entities.

    Returns the words.
    """
    if os.path.exists(f"{directory}/vocab.txt"):
        with open(f"{directory}/units-1.txt", encoding="utf-8") as file:
            return set(file.read().split())
    with open(f"{directory}/training.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text}, ensure_ascii=False) + "\n" for _, text in training)
    words = {word for word in words_of(training, words_file) if _CHINESE.fullmatch(word)}
    for number, units in ((1, words), (2, words | titles)):
        with open(f"{directory}/units-{number}.txt", "w", encoding="utf-8") as file:
            file.writelines(f"{unit}\n" for unit in sorted(units))
    run("learn_vocab", input_files=f"{directory}/training.jsonl", vocab_file=f"{directory}/vocab.txt", vocab_size=8000)
    return words


def without_overlap(directory, sentiment_dir):
    """Copies the texts about sentiment. dev loses the texts that test has, and train those that dev or test has."""
    seen, counts = set(), []
    os.makedirs(f"{directory}/sentiment", exist_ok=True)
    for part in ("test", "dev", "train"):
        with open(f"{sentiment_dir}/{part}.tsv", encoding="utf-8") as file:
            head, *lines = file.read().splitlines() or sys.exit(f"{file.name}: is empty; expected ChnSentiCorp")
        kept = [line for line in lines if "".join(line.split()[1:]) not in seen]
        seen |= {"".join(line.split()[1:]) for line in lines}
        counts.append(f"{len(lines) - len(kept)} of {len(lines)} from {part}")
        with open(f"{directory}/sentiment/{part}.tsv", "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in [head, *kept])
    print(f"left out texts that occur in another part, too: {', '.join(counts)}")
    return f"{directory}/sentiment"


def cloze(workdir, mentions):
    """The characters that a model puts in the place of each hidden title."""
    model = load_pretrained(workdir)
    tokenizer = BertTokenizer.from_directory(workdir, special_tokens_in_text=True)
    pieces, answers = np.array(tokenizer.vocabulary), []
    for start in range(0, len(mentions), 64):
        texts = [f"{a}{'[MASK]' * len(name)}{b}" for _, a, name, b in mentions[start : start + 64]]
        rows = tokenizer.pack(texts, seq_length=_LENGTH)
        is_mask = rows["input_word_ids"].numpy() == tokenizer.mask_id
        places = np.zeros((len(texts), LONGEST), np.int32)
        for place, row in zip(places, is_mask, strict=True):
            place[: row.sum()] = np.flatnonzero(row)
        best = model({**rows, "masked_lm_positions": places})["mlm_logits"].numpy().argmax(axis=2)
        for ids, (_, _, name, _) in zip(best, mentions[start : start + 64], strict=True):
            answers.append("".join(pieces[id] for id in ids[: len(name)]))
    return answers


def pretrain(directory, workdir, number, size, steps, seed, precision):
    """Trains a masked language model, or resumes it. Only the units that are hidden as a whole differ."""
    # Whole words of Chinese text are single characters. Latin words are hidden as a whole, as with a lexicon.
    masking = {"masking": "whole_word"}
    if number:
        masking = {"masking": "lexicon", "lexicon_file": f"{directory}/units-{number}.txt"}
    run(
        "pretrain",
        workdir=workdir,
        input_files=f"{directory}/training.jsonl",
        vocab_file=f"{directory}/vocab.txt",
        config=size,
        max_seq_length=_LENGTH,
        global_batch_size=32,
        **small_pretraining(steps, precision),
        seed=seed,
        **masking,
    )


def tasks(model, sentiment_dir, entities_dir, seed, precision):
    """Fine-tunes a model on both tasks. Yields (name of the metric, results)."""
    settings = {"seed": seed, "bias_correction": True, "max_seq_length": _LENGTH, "max_train_examples": 2500}
    settings |= {"precision": precision, "learning_rate": 4e-4}  # a rate for small models
    test = {"test_file": f"{sentiment_dir}/test.tsv", "text_columns": ("text_a",), "label_column": "label"}
    done = finetune(f"{model}-sentiment", "classification", sentiment_dir, model, pooling="mean", **settings, **test)
    yield "sentiment accuracy", done
    yield "entity F1", finetune(f"{model}-entities", "ner", entities_dir, model, **settings)


if __name__ == "__main__":
    flags.DEFINE_string("output_dir", "runs/ernie_masking", "Where texts, models and results go.")
    flags.DEFINE_string("wiki", None, "Pattern of the files of articles.", required=True)
    flags.DEFINE_string("sentiment_dir", None, "Folder of ChnSentiCorp.", required=True)
    flags.DEFINE_string("entities_dir", None, "Folder of the sentences with entities.", required=True)
    flags.DEFINE_string("words_file", "", "Words, one a line; by default those of jieba.")
    flags.DEFINE_integer("steps", 1000, "Steps of pre-training.", lower_bound=1)
    flags.DEFINE_integer("num_seeds", 3, "Runs of each kind.", lower_bound=1)
    define_precision()
    run_with_flags(main, "wiki", "sentiment_dir", "entities_dir", "words_file", "steps", "num_seeds", "precision")
