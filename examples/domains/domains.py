"""Continues a model on the text of a domain, with and without new words, and scores it there (BioBERT, SciBERT, DAPT).

python -m examples.domains.domains --init_checkpoint=RUN --input_files=medquad.jsonl --text_field=answer \\
    --general_files='enwiki/*/*' --ner_dir=scibert/ner --output_dir=runs/domains

RUN is a work directory of `pretrain`, or a folder that `convert --to=workdir` wrote. --ner_dir has a folder for each
task, with train.txt, dev.txt and test.txt in CoNLL columns.
"""

import functools
import itertools
import json
import os
import sys

import numpy as np
from absl import flags

from examples.common import define_precision, keep_scores, keep_settings, need_files, once, run, run_with_flags
from examples.comparisons import difference, spread
from keras_bert_app import BertConfig, FinetunedRun, finetune

KINDS = (
    "the model as it was",
    "after more general text",
    "after the domain's text",
    "after the domain's text, with new words",
)
FINETUNING = {"num_train_epochs": 3, "bias_correction": True}


def main(
    directory,
    init_checkpoint,
    input_files,
    text_field,
    general_files,
    ner_dir,
    steps=500,
    num_seeds=3,
    num_words=1000,
    part="test",
    learning_rate=4e-4,
    precision="auto",
):
    tasks = sorted(name for name in os.listdir(ner_dir) if os.path.exists(f"{ner_dir}/{name}/train.txt"))
    if not tasks:
        sys.exit(f"--ner_dir={ner_dir}: has no folder with train.txt; give a folder with a folder for each task")
    need_files(*(f"{ner_dir}/{task}/{part}.txt" for task in tasks for part in ("dev", "test")))
    text, general = {"input_files": input_files, "text_field": text_field}, {"input_files": general_files}
    settings = {"init_checkpoint": init_checkpoint, "ner_dir": ner_dir, "steps": steps, "num_words": num_words}
    tuning = {"learning_rate": learning_rate, "precision": precision, **FINETUNING}
    keep_settings(directory, general_files=general_files, part=part, **text, **settings, **tuning)
    with_words = with_new_words(directory, init_checkpoint, text, num_words)
    starts = {KINDS[1]: (init_checkpoint, general), KINDS[2]: (init_checkpoint, text), KINDS[3]: (with_words, text)}
    objective = sentence_objective(init_checkpoint)
    results, counts = ({task: {kind: [] for kind in KINDS} for task in tasks} for _ in range(2))
    for seed, (number, kind) in itertools.product(range(1, num_seeds + 1), enumerate(KINDS)):
        model = init_checkpoint
        if kind in starts:
            model = f"{directory}/domain-{number}-{seed}"
            pretrain(model, *starts[kind], objective, steps, seed, precision)
        for task in tasks:
            folder, workdir = f"{ner_dir}/{task}", f"{directory}/{task}-{number}-{seed}"
            # dev chooses the weights, and the test is scored once. For --part=validation, one half of dev chooses the
            # weights, and the other half is scored.
            test = {"test_file": f"{folder}/test.txt"} if part == "test" else {}
            done = finetune(workdir, "ner", folder, model, seed=seed, **test, **tuning)
            results[task][kind].append(done["reported"]["score"])
            results[task]["baseline"] = [done["baseline"]["score"]]
            if test:
                make = functools.partial(counts_of, workdir, test["test_file"])
                counts[task][kind].append(once(f"{workdir}-counts.json", make))
    keep_scores(f"{directory}/results.json", results)
    print("\n".join(table(results, counts)))


def sentence_objective(workdir):
    """The second objective of a model's pre-training, which the further training keeps."""
    with open(f"{workdir}/config.json", encoding="utf-8") as file:
        return json.load(file).get("pretraining", {}).get("sentence_objective", "nsp")


def with_new_words(directory, init_checkpoint, text, num_words):
    """The model with the domain's words in its vocabulary. A new word begins with the mean of its pieces' vectors."""
    vocab_file, model = f"{directory}/with_words.txt", f"{directory}/with_words"
    if not os.path.exists(vocab_file):
        run(
            "extend_vocab",
            vocab_file=f"{init_checkpoint}/vocab.txt",
            do_lower_case=BertConfig.from_json_file(f"{init_checkpoint}/config.json").do_lower_case,
            num_words=num_words,
            output_file=vocab_file,
            words_file=f"{directory}/new_words.tsv",
            overwrite=True,
            **text,
        )
    if not os.path.exists(f"{model}/config.json"):
        run("convert", input=init_checkpoint, vocab_file=vocab_file, to="workdir", output=model)
    return model


def pretrain(workdir, start, text, objective, steps, seed, precision):
    """Continues a model on a text with the recipe `domain`, or resumes this run."""
    run(
        "pretrain",
        workdir=workdir,
        recipe="domain",
        init_checkpoint=start,
        sentence_objective=objective,
        num_train_steps=steps,
        num_warmup_steps=steps // 10,
        global_batch_size=32,
        learning_rate=2e-4,
        save_checkpoints_steps=steps,
        seed=seed,
        precision=precision,
        **text,
    )


def counts_of(workdir, path):
    """[[entities of a sentence, entities of the model's answer, entities that are in both]] of a test."""
    _, sentences, _, predictions = FinetunedRun(workdir).evaluate(path)
    pairs = [
        (spans(sentence.tags), spans(answer["tags"])) for sentence, answer in zip(sentences, predictions, strict=True)
    ]
    return [[len(right), len(given), len(right & given)] for right, given in pairs]


def spans(tags):
    """{(type, first word, word after the last)}. I- after O or after another type begins an entity, too."""
    entities, start = set(), 0
    for place, (before, tag, after) in enumerate(zip(["O", *tags[:-1]], tags, [*tags[1:], "O"], strict=True)):
        if tag[0] == "B" or before == "O" or before[1:] != tag[1:]:
            start = place
        if tag != "O" and after != f"I{tag[1:]}":
            entities.add((tag[2:], start, place + 1))
    return entities


def over_sentences(one, other):
    """(low, high): 95 % interval of the difference of two kinds' mean F1, by the bootstrap over sentences.

    Args:
        one, other: int [seeds, sentences, 3]. See counts_of.
    """
    size = np.shape(one)[1]
    draws = np.random.default_rng(0).multinomial(size, np.full(size, 1 / size), 1000)
    totals = [np.einsum("ds,nsc->ndc", draws, np.array(rows, float)) for rows in (one, other)]
    scores = [np.mean(2 * rows[..., 2] / np.maximum(rows[..., 0] + rows[..., 1], 1), axis=0) for rows in totals]
    return np.percentile(scores[0] - scores[1], [2.5, 97.5])


def table(results, counts):
    """Yields the table: the entity F1 of each kind, and the differences over seeds and over sentences."""
    yield "\n| entity F1 | " + " | ".join(results) + " |"
    yield "|---" * (len(results) + 1) + "|"
    yield "| each word's most frequent tag | " + " | ".join(f"{r['baseline'][0]:.4f}" for r in results.values()) + " |"
    for kind in KINDS:
        yield f"| {kind} | {' | '.join(spread(scores[kind]) for scores in results.values())} |"
    for one, other in ((KINDS[1], KINDS[0]), (KINDS[2], KINDS[0]), (KINDS[2], KINDS[1]), (KINDS[3], KINDS[2])):
        cells = [difference(scores[one], scores[other]) for scores in results.values()]
        for number, of_task in enumerate(counts.values()):
            if of_task[one]:
                low, high = over_sentences(of_task[one], of_task[other])
                cells[number] += f"; over sentences {low:+.4f} to {high:+.4f}"
        yield f"| {one}, minus {other} | {' | '.join(cells)} |"


if __name__ == "__main__":
    flags.DEFINE_string("output_dir", "runs/domains", "Where models, runs and results go.")
    flags.DEFINE_string("init_checkpoint", None, "The work directory of a model.", required=True)
    flags.DEFINE_string("input_files", None, "Text of the domain.", required=True)
    flags.DEFINE_string("text_field", "text", "The field of JSON lines with the text.")
    flags.DEFINE_string("general_files", None, "General text, for comparison.", required=True)
    flags.DEFINE_string("ner_dir", None, "Folder with a folder for each task of named entities.", required=True)
    flags.DEFINE_integer("steps", 500, "Steps on the text of the domain.", lower_bound=1)
    flags.DEFINE_integer("num_seeds", 3, "Runs of each kind.", lower_bound=1)
    flags.DEFINE_integer("num_words", 1000, "New words.", lower_bound=1)
    flags.DEFINE_enum("part", "test", ["validation", "test"], "What is scored. Choose settings by the validation.")
    flags.DEFINE_float("learning_rate", 4e-4, "Peak rate of fine-tuning. Models smaller than base need a higher one.")
    define_precision()
    run_with_flags(
        main,
        "init_checkpoint",
        "input_files",
        "text_field",
        "general_files",
        "ner_dir",
        "steps",
        "num_seeds",
        "num_words",
        "part",
        "learning_rate",
        "precision",
    )
