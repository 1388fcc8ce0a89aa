"""Classifies the relation between two marked nominals of a sentence (R-BERT).

python -m examples.relations.relations --init_checkpoint=MODEL --data_dir=SEMEVAL --output_dir=runs/relations

MODEL is a directory with a BERT and its vocab.txt. SEMEVAL has train.tsv and test.tsv of SemEval-2010 Task 8.
Each line has a relation, a tab, and a sentence with <e1>, </e1>, <e2> and </e2>.
"""

import re
import sys

import keras
import numpy as np
import tensorflow as tf
from absl import flags

from examples.common import define_precision, keep_scores, keep_settings, run_with_flags, scores_so_far
from examples.relations.semeval_scores import constant_f1, macro_f1, table, words_between_f1
from keras_bert_app import load_pretrained
from pipelines import BertTokenizer

_LENGTH = 128  # the most pieces of a row
_BATCH = 32
# With --part=validation, each tenth training sentence is scored. The end of the file has another mix of relations.
_EACH = 10
_PARTS = re.compile(r"(.*)<e1>(.*)</e1>(.*)<e2>(.*)</e2>(.*)")
# (whether markers stand around the nominals, of what the head reads the means beside [CLS]).
KINDS = {
    "[CLS] of the plain sentence": (False, ""),
    "[CLS] of the sentence with markers": (True, ""),
    "[CLS] and the mean of all states, with markers": (True, "sentence"),
    "[CLS] and the means of both nominals, with markers (R-BERT)": (True, "nominals"),
}


def main(directory, data_dir, init_checkpoint, part="test", num_seeds=3, **changes):
    settings = {"epochs": 3, "learning_rate": 5e-5, "precision": "auto"} | changes
    keep_settings(directory, data_dir=data_dir, init_checkpoint=init_checkpoint, part=part, **settings)
    tokenizer = BertTokenizer.from_directory(init_checkpoint)
    train, train_names = read(f"{data_dir}/train.tsv")
    if part == "test":
        test, test_names = read(f"{data_dir}/test.tsv")
    else:
        test, test_names = train[::_EACH], train_names[::_EACH]
        train, train_names = (
            [value for number, value in enumerate(values) if number % _EACH] for values in (train, train_names)
        )
    relations = sorted(set(train_names))
    labels = [relations.index(name) for name in train_names]
    done = scores_so_far(f"{directory}/results.json")
    for kind, (has_markers, means) in KINDS.items():
        for seed in range(len(done.setdefault(kind, [])) + 1, num_seeds + 1):
            keras.utils.set_random_seed(seed)
            model = classifier(init_checkpoint, len(relations), bool(means), settings["precision"], seed)
            batches = dataset(rows(tokenizer, train, has_markers, means), labels, seed)
            steps = settings["epochs"] * len(list(batches))
            schedule = keras.optimizers.schedules.PolynomialDecay(settings["learning_rate"], steps, 0.0)
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            optimizer = keras.optimizers.AdamW(schedule, weight_decay=0.01, global_clipnorm=1.0)
            model.compile(optimizer, loss, metrics=["accuracy"], jit_compile=False)
            print(f"{kind}, seed {seed}: {steps:,} steps", flush=True)
            model.fit(batches, epochs=settings["epochs"], verbose=2)
            answers = [relations[label] for label in predicted(model, rows(tokenizer, test, has_markers, means))]
            done[kind].append({"macro-F1": macro_f1(test_names, answers), "answers": answers})
            print(f"{kind}, seed {seed}: macro-F1 {done[kind][-1]['macro-F1']:.4f}", flush=True)
            keep_scores(f"{directory}/results.json", done)
    baselines = {
        "the most frequent relation": constant_f1(train_names, test_names),
        "logistic regression over the words between": words_between_f1(train, train_names, test, test_names),
    }
    print("\n".join(table({kind: done[kind] for kind in KINDS}, baselines, test_names)))


def read(path):
    """([(before, nominal 1, between, nominal 2, after)], [relation]) of a file."""
    sentences, names = [], []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            name, _, sentence = line.rstrip("\n").partition("\t")
            parts = _PARTS.fullmatch(sentence)
            if parts is None:
                sys.exit(f"{path}:{number}: expected a relation, a tab, and a sentence with <e1> </e1> <e2> </e2>")
            sentences.append(parts.groups())
            names.append(name)
    return sentences, names


def rows(tokenizer, sentences, has_markers, means="nominals"):
    """[(ids, 1 at the places of nominal 1, 1 at those of nominal 2)], [S] each. A row is [CLS] a $b$ c #d# e [SEP].

    The markers are part of their nominal. With means="sentence", all places count for both.
    """
    pieces = [tokenizer.tokenize(list(part)).to_list() for part in zip(*sentences, strict=True)]
    if missing := has_markers and {*"$#"} - {*tokenizer.vocabulary}:
        sys.exit(f"the vocabulary lacks the markers {' '.join(sorted(missing))}; give another model")
    markers = [tokenizer.vocabulary.index(marker) for marker in "$#"] if has_markers else []
    around = [[], markers[:1], [], markers[1:], []]
    examples = []
    for parts in zip(*pieces, strict=True):
        ids, nominals = [tokenizer.cls_id], []
        for number, part in enumerate(parts):
            marked = [*around[number], *part, *around[number]]
            if number in (1, 3):
                nominals.append(np.arange(len(ids), len(ids) + len(marked)))
            ids += marked
        ids = [*ids[: _LENGTH - 1], tokenizer.sep_id]
        if means == "sentence":
            nominals = [np.arange(len(ids))] * 2
        examples.append((ids, *(np.isin(np.arange(len(ids)), nominal).astype(np.int32) for nominal in nominals)))
    return examples


def inputs_of(batch):
    """The inputs of the model from rows padded with zeros."""
    ids, first, second = batch
    mask = tf.cast(ids > 0, tf.int32)
    encoder_inputs = {"input_word_ids": ids, "input_mask": mask, "input_type_ids": tf.zeros_like(ids)}
    return {**encoder_inputs, "first": first, "second": second}


def dataset(examples, labels, seed):
    """Batches of rows of similar lengths, in another order in each epoch."""

    def draws():
        for example, label in zip(examples, labels, strict=True):
            yield *example, label

    row = tf.TensorSpec([None], tf.int32)
    batches = tf.data.Dataset.from_generator(draws, output_signature=(row, row, row, tf.TensorSpec([], tf.int32)))
    batches = batches.cache().shuffle(len(examples), seed=seed)
    batches = batches.bucket_by_sequence_length(lambda ids, *_: tf.size(ids), [24, 32, 48, 64], [_BATCH] * 5)
    return batches.map(lambda *row: (inputs_of(row[:3]), row[3])).prefetch(2)


def classifier(init_checkpoint, num_relations, reads_means, precision, seed):
    """[CLS], and with reads_means the means of both places' states, each through tanh and a layer; then softmax."""
    dtype = "mixed_bfloat16" if precision == "bfloat16" else "float32"
    encoder = load_pretrained(init_checkpoint, dtype, ("pooler", "masked_lm", "next_sentence"), seed).encoder
    if encoder.pooler is not None:
        encoder.pooler.trainable = False  # nothing reads it
    names = ("input_word_ids", "input_mask", "input_type_ids", "first", "second")
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    states = keras.ops.cast(encoder({name: inputs[name] for name in names[:3]})["sequence_output"], "float32")
    width = encoder.config.hidden_size

    def through(layer, vector):
        return layer(keras.layers.Dropout(0.1)(keras.ops.tanh(vector)))

    parts = [through(keras.layers.Dense(width), states[:, 0])]
    if reads_means:
        shared = keras.layers.Dense(width)
        for name in ("first", "second"):
            places = keras.ops.cast(inputs[name], "float32")[:, :, None]
            total = keras.ops.maximum(keras.ops.sum(places, axis=1), 1.0)  # a nominal beyond the cut has no place
            parts.append(through(shared, keras.ops.sum(states * places, axis=1) / total))
    vector = keras.layers.Dropout(0.1)(keras.layers.Concatenate()(parts) if reads_means else parts[0])
    return keras.Model(inputs, keras.layers.Dense(num_relations)(vector))


def predicted(model, examples):
    """The likeliest label of each example."""
    order = sorted(range(len(examples)), key=lambda number: len(examples[number][0]))
    labels = np.zeros(len(examples), int)
    for start in range(0, len(order), 256):
        chosen = order[start : start + 256]
        parts = zip(*(examples[number] for number in chosen), strict=True)
        padded = [tf.constant(keras.utils.pad_sequences(part, padding="post")) for part in parts]
        labels[chosen] = model(inputs_of(padded)).numpy().argmax(axis=1)
    return labels


if __name__ == "__main__":
    flags.DEFINE_string("output_dir", "runs/relations", "Where the scores go.")
    flags.DEFINE_string("data_dir", None, "Folder of SemEval-2010 Task 8.", required=True)
    flags.DEFINE_string("init_checkpoint", None, "A directory with a BERT and its vocab.txt.", required=True)
    flags.DEFINE_enum("part", "test", ["validation", "test"], "What is scored. Choose settings by the validation.")
    flags.DEFINE_integer("epochs", 3, "Epochs of a run.", lower_bound=1)
    flags.DEFINE_float("learning_rate", 5e-5, "Learning rate at the start. It falls to zero.")
    flags.DEFINE_integer("num_seeds", 3, "Runs of each kind.", lower_bound=1)
    define_precision()
    run_with_flags(main, "data_dir", "init_checkpoint", "part", "epochs", "learning_rate", "num_seeds", "precision")
