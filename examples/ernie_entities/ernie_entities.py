"""Puts entities with vectors of a knowledge graph into the text of pre-training (ERNIE of Tsinghua University).

python -m examples.ernie_entities.ernie_entities --wiki='enwiki/*/*' --semeval_dir=SEMEVAL --output_dir=runs/entities

The files of --wiki are what wikiextractor writes. SEMEVAL has train.tsv and test.tsv of SemEval-2010 Task 8 (see the
example relations).
"""

import functools
import html
import os

import numpy as np
from absl import flags

from examples.common import (
    define_precision,
    digest,
    keep_scores,
    keep_settings,
    need_files,
    once,
    read_articles,
    run,
    run_with_flags,
    sample,
    small_pretraining,
)
from examples.comparisons import difference, over_examples, spread
from examples.ernie_entities.entities import edges_of, graph, lines_of, names_in
from examples.ernie_entities.linked_text import Writer, is_entity, without_entities, write_vectors
from examples.relations.relations import read
from examples.relations.semeval_scores import constant_f1, macro_f1
from keras_bert_app import FinetunedRun, finetune, load_pretrained
from pipelines import BertTokenizer

_LENGTH = 128  # symbols of a row
# (whether entities stand in the text, the file of their vectors, which then are not trained)
KINDS = {
    "text alone": (False, ""),
    "entities, own vectors": (True, ""),
    "entities, vectors of other entities": (True, "shuffled-{seed}.txt"),
    "entities, vectors of TransE": (True, "vectors-{seed}.txt"),
}


def main(directory, wiki, semeval_dir, steps=1000, num_seeds=3, num_mentions=2000, size="mini", precision="auto"):
    need_files(*(f"{semeval_dir}/{part}.tsv" for part in ("train", "test")))
    articles = [(html.unescape(title), lines_of(text)) for title, text in read_articles(wiki)]
    settings = {"steps": steps, "num_mentions": num_mentions, "size": size, "precision": precision}
    keep_settings(directory, articles=digest(articles), semeval_dir=semeval_dir, **settings)
    held_out, training = articles[::4], [article for number, article in enumerate(articles) if number % 4]
    entities, edges = graph(training)
    print(f"{len(entities):,} entities, {len(edges):,} mentions in articles, {len(training):,} articles")
    writer = Writer(directory, training, entities)
    hidden = drawn_mentions(held_out, writer, num_mentions)
    write_inputs(directory, writer, training, semeval_dir)
    of_held_out = edges_of([names_in(lines) - {title} for title, lines in held_out], entities)
    for seed in range(1, num_seeds + 1):
        write_vectors(directory, entities, edges, of_held_out, seed)
    scores = {kind: {"words": [], "relations": []} for kind in KINDS}
    for number, (kind, (has_entities, vectors)) in enumerate(KINDS.items()):
        for seed in range(1, num_seeds + 1):
            model = f"{directory}/model-{number}-{seed}"
            pretrain(directory, model, has_entities, vectors.format(seed=seed), size, steps, seed, precision)
            make = functools.partial(right_words, model, hidden, has_entities)
            scores[kind]["words"].append(once(f"{model}-words.json", make))
            scores[kind]["relations"].append(relations(directory, model, has_entities, seed, precision))
    names = [" ".join(symbols[place] for place in places[:-1]) for _, symbols, places in hidden]
    labels = [read(f"{semeval_dir}/{part}.tsv")[1] for part in ("train", "test")]
    baseline = {"words": max(map(names.count, set(names))) / len(names), "relations": constant_f1(*labels)}
    numbers = [number for number, *_ in hidden]
    print(f"\n{len(names):,} hidden mentions of {len(set(names)):,} entities in {len(set(numbers)):,} articles")
    report(directory, scores, baseline, numbers)


def write_inputs(directory, writer, training, semeval_dir):
    """Writes the texts with and without entities, their vocabularies, and the sentences of SemEval."""
    if os.path.exists(f"{directory}/semeval-without/test.tsv"):
        return
    documents = [[symbols for symbols, _ in rows] for rows in writer.of_articles(training, share=0.5)]
    for name, kept in {"with": list, "without": without_entities}.items():
        with open(f"{directory}/{name}.txt", "w", encoding="utf-8") as file:
            file.writelines("".join(f"{' '.join(kept(s))}\n" for s in rows) + "\n" for rows in documents)
        run(
            "learn_vocab",
            tokenizer="symbols",
            input_files=f"{directory}/{name}.txt",
            vocab_file=f"{directory}/{name}.vocab",
            overwrite=True,
        )
    for part in ("train", "test"):
        parts, labels = read(f"{semeval_dir}/{part}.tsv")
        rows = list(writer.symbols([f"{a}$ {b} ${c}# {d} #{e}" for a, b, c, d, e in parts]))
        for name, kept in (("with", list), ("without", without_entities)):
            os.makedirs(f"{directory}/semeval-{name}", exist_ok=True)
            path = f"{directory}/semeval-{name}/{part}.tsv"
            with open(f"{path}.part", "w", encoding="utf-8") as file:
                file.write("label\ttext\n")
                file.writelines(f"{label}\t{' '.join(kept(s))}\n" for label, (s, _) in zip(labels, rows, strict=True))
            os.replace(f"{path}.part", path)
        count = sum(any(map(is_entity, symbols)) for symbols, _ in rows)
        print(f"{part}: {count:,} of {len(rows):,} sentences of SemEval mention an entity")


def drawn_mentions(held_out, writer, most):
    """[(number of the article, symbols, places of one mention, its entity last)] of articles that training lacks.

    The symbols around do not have the mention again, so that no model can copy it. They have another entity.
    """
    candidates = []
    for number, rows in enumerate(writer.of_articles(held_out)):
        for symbols, is_mention in rows:
            ends = [place for place, symbol in enumerate(symbols) if is_mention[place] and is_entity(symbol)]
            for end in ends:
                start = end - 1
                while start and is_mention[start - 1] and not is_entity(symbols[start - 1]):
                    start -= 1
                first = max(0, start - _LENGTH // 2)
                last = first + _LENGTH - 2
                around = f" {' '.join(symbols[first:start])} [MASK] {' '.join(symbols[end + 1 : last])} "
                others = {s for s in [*symbols[first:start], *symbols[end + 1 : last]] if is_entity(s)}
                is_alone = f" {' '.join(symbols[start:end])} " not in around and symbols[end] not in others
                if end < last and others and is_alone:
                    candidates.append((number, symbols[first:last], range(start - first, end - first + 1)))
    return sample(candidates, most)


def pretrain(directory, workdir, has_entities, vectors, size, steps, seed, precision):
    """Trains a masked language model, or resumes it. With entities, their symbols are hidden and predicted, too."""
    name = "with" if has_entities else "without"
    run(
        "pretrain",
        workdir=workdir,
        tokenizer="symbols",
        input_files=f"{directory}/{name}.txt",
        vocab_file=f"{directory}/{name}.vocab",
        config=size,
        max_seq_length=_LENGTH,
        global_batch_size=32,
        holdout_fraction=0,
        **small_pretraining(steps, precision),
        seed=seed,
        **({"given_vectors": f"{directory}/{vectors}"} if vectors else {}),
    )


def right_words(workdir, hidden, has_entities):
    """[mentions]: whether all pieces are found. They are hidden, and the symbol of their entity is left out."""
    model = load_pretrained(workdir)
    tokenizer = BertTokenizer.from_directory(workdir, special_tokens_in_text=True)
    vocabulary, right = np.array(tokenizer.vocabulary), []
    for start in range(0, len(hidden), 64):
        batch = hidden[start : start + 64]
        texts = []
        for _, symbols, places in batch:
            shown = [(s, "[MASK]" if place in places else s) for place, s in enumerate(symbols) if place != places[-1]]
            texts.append(" ".join(new for old, new in shown if has_entities or not is_entity(old)))
        rows = tokenizer.pack(texts, seq_length=_LENGTH)
        masks = [np.flatnonzero(ids == tokenizer.mask_id) for ids in rows["input_word_ids"].numpy()]
        most = max(map(len, masks))
        at = np.array([np.pad(row, (0, most - len(row))) for row in masks], np.int32)
        best = model({**rows, "masked_lm_positions": at})["mlm_logits"].numpy().argmax(axis=2)
        for row, (_, symbols, places) in zip(best, batch, strict=True):
            right.append(vocabulary[row[: len(places) - 1]].tolist() == [symbols[place] for place in places[:-1]])
    return right


def relations(directory, model, has_entities, seed, precision):
    """The official macro-F1 of SemEval-2010 Task 8 after fine-tuning."""
    folder, workdir = f"{directory}/semeval-{'with' if has_entities else 'without'}", f"{model}-relations"
    settings = {"dev_fraction": 0.1, "num_train_epochs": 5, "bias_correction": True, "max_seq_length": _LENGTH}
    settings |= {"precision": precision, "learning_rate": 4e-4}  # a rate for small models
    columns = {"text_columns": ("text",), "label_column": "label", "test_file": f"{folder}/test.tsv"}
    finetune(workdir, "classification", f"{folder}/train.tsv", model, seed=seed, pooling="mean", **settings, **columns)
    _, examples, _, predictions = FinetunedRun(workdir).evaluate(f"{folder}/test.tsv")
    return macro_f1([example.label for example in examples], [prediction["label"] for prediction in predictions])


def report(directory, scores, baseline, numbers):
    """Prints the scores, and what the vectors gain; words have a second interval over the articles with numbers."""
    means = {kind: [np.mean(s["words"], axis=1).tolist(), s["relations"]] for kind, s in scores.items()}
    head = "| pre-training | hidden mention, all pieces right | over articles | relations, macro-F1 |"
    lines = [head, "|---|---|---|---|"]
    lines.append(f"| always the most frequent one | {baseline['words']:.4f} | | {baseline['relations']:.4f} |")
    lines += [f"| {kind} | {spread(words)} | | {spread(f1)} |" for kind, (words, f1) in means.items()]
    best = list(KINDS)[-1]
    for kind in list(KINDS)[:-1]:
        words, f1 = (difference(*pair) for pair in zip(means[best], means[kind], strict=True))
        low, high = over_examples(scores[best]["words"], scores[kind]["words"], numbers)
        lines.append(f"| {best}, minus {kind} | {words} | {low:+.4f} to {high:+.4f} | {f1} |")
    print("\n".join(lines))
    results = {kind: {"words": words, "relations": f1} for kind, (words, f1) in means.items()}
    keep_scores(f"{directory}/results.json", {**results, "most frequent": baseline, "table": lines})


if __name__ == "__main__":
    flags.DEFINE_string("output_dir", "runs/ernie_entities", "Where texts, models and results go.")
    flags.DEFINE_string("wiki", None, "Pattern of the files of articles.", required=True)
    flags.DEFINE_string("semeval_dir", None, "Folder of SemEval-2010 Task 8.", required=True)
    flags.DEFINE_integer("steps", 1000, "Steps of pre-training.", lower_bound=1)
    flags.DEFINE_integer("num_seeds", 3, "Runs of each kind.", lower_bound=1)
    define_precision()
    run_with_flags(main, "wiki", "semeval_dir", "steps", "num_seeds", "precision")
