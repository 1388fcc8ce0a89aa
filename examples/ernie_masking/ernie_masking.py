"""Hides Chinese characters, words, or words and entities in pre-training, and compares what is learned (ERNIE).

python -m examples.ernie_masking.ernie_masking --wiki='zhwiki/*/*' --sentiment_dir=chnsenticorp \\
    --entities_dir=peopledaily --output_dir=runs/ernie_masking

The files of --wiki are what wikiextractor writes. Words are those of --words_file, by default of the package jieba.
Entities are titles of articles. --sentiment_dir has train.tsv, dev.tsv and test.tsv with label and text_a.
--entities_dir has train.txt and dev.txt in CoNLL columns.
"""

import collections
import glob
import json
import os
import random
import re
import sys

import numpy as np
from absl import app, flags

from examples.common import run
from keras_bert_app import finetune, load_pretrained
from pipelines import BertTokenizer

_ARTICLE = re.compile(r'<doc [^>]*title="([^"]*)"[^>]*>\n(.*?)</doc>', re.DOTALL)
_CHINESE = re.compile(r"[\u4e00-\u9fff]{2,10}")
_LONGEST, _LENGTH = 10, 128
KINDS = ("characters", "words", "words and entities")


def main(
    directory, wiki, sentiment_dir, entities_dir, words_file="", steps=4000, num_seeds=3, num_mentions=2000, size="mini"
):
    os.makedirs(directory, exist_ok=True)
    articles = read_articles(wiki)
    held_out, training = articles[::20], [article for number, article in enumerate(articles) if number % 20]
    titles = {title for title, _ in articles if _CHINESE.fullmatch(title)}
    write_inputs(directory, training, titles, words_file)
    mentions = drawn_mentions(held_out, training, titles, num_mentions)
    scores = {kind: collections.defaultdict(list) for kind in KINDS}
    for number, kind in enumerate(KINDS):
        for seed in range(1, num_seeds + 1):
            model = f"{directory}/model-{number}-{seed}"
            pretrain(directory, model, number, size, steps, seed)
            exact, single = cloze(model, mentions)
            scores[kind]["hidden entity, whole"].append(exact)
            scores[kind]["hidden entity, characters"].append(single)
            for name, done in tasks(model, sentiment_dir, entities_dir, seed):
                scores[kind][name].append(done["reported"]["score"])
                scores[kind][f"baseline of {name}"] = [done["baseline"]["score"]]
    report(directory, scores, constant(mentions))


def read_articles(wiki):
    """[(title, text)] of the files."""
    found = []
    for path in sorted(glob.glob(wiki)):
        with open(path, encoding="utf-8") as file:
            found += _ARTICLE.findall(file.read())
    return found


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
    """Writes the text, its vocabulary, and a list of units for each kind: words, and words with entities."""
    if os.path.exists(f"{directory}/vocab.txt"):
        return
    with open(f"{directory}/training.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text}, ensure_ascii=False) + "\n" for _, text in training)
    words = {word for word in words_of(training, words_file) if _CHINESE.fullmatch(word)}
    for number, units in ((1, words), (2, words | titles)):
        with open(f"{directory}/units-{number}.txt", "w", encoding="utf-8") as file:
            file.writelines(f"{unit}\n" for unit in sorted(units))
    run("learn_vocab", input_files=f"{directory}/training.jsonl", vocab_file=f"{directory}/vocab.txt", vocab_size=8000)


def occurrences(text, names):
    """Yields (start, name) of the longest names in a text, from the left."""
    start = 0
    while start < len(text):
        lengths = range(min(_LONGEST, len(text) - start), 1, -1)
        name = next((text[start : start + n] for n in lengths if text[start : start + n] in names), "")
        if name:
            yield start, name
        start += len(name) or 1


def drawn_mentions(held_out, training, titles, most):
    """[(text before, title, text after)] in articles that training lacks, of titles that training has 5 times."""
    counts = collections.Counter(name for _, text in training for _, name in occurrences(text, titles))
    found = []
    for own_title, text in held_out:
        for line in text.splitlines():
            for start, name in occurrences(line, titles):
                if counts[name] >= 5 and name != own_title:
                    after = start + len(name)
                    found.append((line[max(0, start - 50) : start], name, line[after : after + 50]))
    return random.Random(0).sample(found, min(most, len(found)))


def constant(mentions):
    """(share of mentions, share of their characters) that the most frequent title of each length gets right."""
    by_length = collections.defaultdict(collections.Counter)
    for _, name, _ in mentions:
        by_length[len(name)][name] += 1
    best = {length: counts.most_common(1)[0][0] for length, counts in by_length.items()}
    return right_shares([name for _, name, _ in mentions], [best[len(name)] for _, name, _ in mentions])


def right_shares(names, answers):
    """(share of names that are answered, share of their characters that are answered)."""
    single = [a == b for name, answer in zip(names, answers, strict=True) for a, b in zip(name, answer, strict=True)]
    return float(np.mean([a == b for a, b in zip(names, answers, strict=True)])), float(np.mean(single))


def cloze(workdir, mentions):
    """The shares of right answers where all characters of a title are hidden; see right_shares."""
    model = load_pretrained(workdir, allow_missing=("pooler", "next_sentence"))
    tokenizer = BertTokenizer.from_directory(workdir, special_tokens_in_text=True)
    pieces, answers = np.array(tokenizer.vocabulary), []
    for start in range(0, len(mentions), 64):
        texts = [f"{a}{'[MASK]' * len(name)}{b}" for a, name, b in mentions[start : start + 64]]
        rows = tokenizer.pack(texts, seq_length=_LENGTH)
        is_mask = rows["input_word_ids"].numpy() == tokenizer.mask_id
        places = np.zeros((len(texts), _LONGEST), np.int32)
        for place, row in zip(places, is_mask, strict=True):
            place[: row.sum()] = np.flatnonzero(row)
        best = model({**rows, "masked_lm_positions": places})["mlm_logits"].numpy().argmax(axis=2)
        for ids, (_, name, _) in zip(best, mentions[start : start + 64], strict=True):
            answers.append([pieces[id] for id in ids[: len(name)]])
    return right_shares([list(name) for _, name, _ in mentions], answers)


def pretrain(directory, workdir, number, size, steps, seed):
    """Trains a masked language model, or resumes it. Only the units that are hidden as a whole differ."""
    masking = {"masking": "lexicon", "lexicon_file": f"{directory}/units-{number}.txt"} if number else {}
    run(
        "pretrain",
        workdir=workdir,
        input_files=f"{directory}/training.jsonl",
        vocab_file=f"{directory}/vocab.txt",
        config=size,
        sentence_objective="none",
        short_seq_prob=0,
        max_seq_length=_LENGTH,
        global_batch_size=32,
        optimizer="muon",
        learning_rate=3e-3,
        hidden_dropout_prob=0,
        attention_probs_dropout_prob=0,
        initializer_range=0.06,
        num_train_steps=steps,
        num_warmup_steps=steps // 16,
        save_checkpoints_steps=max(steps // 8, 1),
        seed=seed,
        **masking,
    )


def tasks(model, sentiment_dir, entities_dir, seed):
    """Fine-tunes a model on both tasks. Yields (name of the metric, results)."""
    settings = {"seed": seed, "bias_correction": True, "max_seq_length": _LENGTH, "max_train_examples": 5000}
    test = {"test_file": f"{sentiment_dir}/test.tsv", "text_columns": ("text_a",), "label_column": "label"}
    done = finetune(f"{model}-sentiment", "classification", sentiment_dir, model, pooling="mean", **settings, **test)
    yield "sentiment accuracy", done
    yield "entity F1", finetune(f"{model}-entities", "ner", entities_dir, model, **settings)


def report(directory, scores, constants):
    columns = [name for name in scores[KINDS[0]] if not name.startswith("baseline")]
    print(f"\n| what is hidden in pre-training | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    baselines = [*constants, *(scores[KINDS[0]][f"baseline of {name}"][0] for name in columns[2:])]
    print(f"| no model | {' | '.join(f'{value:.4f}' for value in baselines)} |")
    for kind, figures in scores.items():
        cells = [f"{np.mean(figures[n]):.4f} ({min(figures[n]):.4f} to {max(figures[n]):.4f})" for n in columns]
        print(f"| {kind} | {' | '.join(cells)} |")
    with open(f"{directory}/results.json", "w", encoding="utf-8") as file:
        json.dump({**scores, "no model": baselines}, file, indent=1)


if __name__ == "__main__":
    flags.DEFINE_string("output_dir", "runs/ernie_masking", "Where texts, models and results go.")
    flags.DEFINE_string("wiki", None, "Pattern of the files of articles.", required=True)
    flags.DEFINE_string("sentiment_dir", None, "Folder of ChnSentiCorp.", required=True)
    flags.DEFINE_string("entities_dir", None, "Folder of the sentences with entities.", required=True)
    flags.DEFINE_string("words_file", "", "Words, one a line; by default those of jieba.")
    flags.DEFINE_integer("steps", 4000, "Steps of pre-training.")
    flags.DEFINE_integer("num_seeds", 3, "Runs of each kind.")
    given = flags.FLAGS
    names = ("wiki", "sentiment_dir", "entities_dir", "words_file", "steps", "num_seeds")
    app.run(lambda _: main(given.output_dir, **{name: getattr(given, name) for name in names}))
