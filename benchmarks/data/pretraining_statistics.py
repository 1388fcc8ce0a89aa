"""Compares the distributions of our pre-training examples with those of google-research/bert's create_pretraining_data.

python -m benchmarks.data.pretraining_statistics --corpus_dir=CORPUS \\
    --vocab_file=VOCAB --google_python=GOOGLE_ENV/bin/python \\
    --passes=10 --output_file=statistics.json

CORPUS is a directory that prepare_corpus wrote. Both sides read its training documents: our side from the shards,
Google's side as text with one sentence on each line and an empty line between documents. On our side a pass is an
epoch. On Google's side the number of passes is dupe_factor. Choose --passes so that each side has 100,000 examples or
more. The examples are our batches and the instances of create_training_instances. The benchmark restores the masked
pieces from the labels.

Each side runs twice with two seeds. The first runs of the two sides are compared with each other. The two runs of one
side show the effect of chance alone. p (documents) takes documents as units, because examples of one document depend on
each other (benchmarks/data/two_sample_tests.py). p (plain) is that of the usual test, which assumes that all
examples are independent. The sides differ in a statistic if its p (documents) is less than 0.01 divided by the number
of statistics. The exit code is 1 if the sides differ in a statistic or if an example breaks a rule.

Google's side runs in an environment of its own:
python3.11 -m venv GOOGLE_ENV && GOOGLE_ENV/bin/pip install -r benchmarks/requirements-google.txt
"""

import json
import os
import sys
import tempfile

import numpy as np
from absl import flags

from benchmarks.common import count_flags
from benchmarks.common.peer_process import PeerProcess
from benchmarks.data import example_statistics, segment_locations, two_sample_tests
from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError
from pipelines import storage

_CORPUS_DIR = flags.DEFINE_string("corpus_dir", "", "Directory that prepare_corpus wrote.")
_VOCAB_FILE = flags.DEFINE_string("vocab_file", "", "WordPiece vocabulary, one piece on each line.")
_GOOGLE_PYTHON = flags.DEFINE_string("google_python", "", "Interpreter with bert-tensorflow==1.0.4.")
_DO_LOWER_CASE = flags.DEFINE_bool("do_lower_case", True, "Whether the vocabulary is uncased.")
_PASSES = flags.DEFINE_integer("passes", 10, "Epochs of our side, and dupe_factor of Google's side.", lower_bound=1)
_MIN_EXAMPLES = flags.DEFINE_integer("min_examples", 100_000, "Fewer examples of a run are an error.", lower_bound=1)
_MAX_SEQ_LENGTH = flags.DEFINE_integer("max_seq_length", 128, "S, the length of a row.", lower_bound=5)
_MAX_PREDICTIONS = flags.DEFINE_integer("max_predictions_per_seq", 20, "P, most predictions of a row.", lower_bound=1)
_MASKED_LM_PROB = flags.DEFINE_float("masked_lm_prob", 0.15, "Share of pieces that are predicted.", 0, 1)
_SHORT_SEQ_PROB = flags.DEFINE_float("short_seq_prob", 0.1, "Probability that a document has a shorter target.", 0, 1)
_SEEDS = count_flags.define("seeds", [12345, 54321], "Two seeds for each side.", lowest=0)
_OUTPUT_FILE = flags.DEFINE_string("output_file", "", "Where to write every figure as JSON.")

_SIGNIFICANCE = 0.01  # of all statistics together
_SIDES = ("ours", "google")


def main(arguments):
    del arguments
    corpus_dir, vocab_file, google_python = app.required("corpus_dir", "vocab_file", "google_python")
    if len(_SEEDS.value) != 2:
        raise UserError(f"--seeds={','.join(map(str, _SEEDS.value))}: expected two seeds, as in 12345,54321")
    with app.quiet_start():
        from pipelines.corpus import preparation
        from pipelines.wordpiece.tokenizer import BertTokenizer
    peer = PeerProcess(
        google_python, "data/peer_google_pretraining_data.py", "google_python", {"bert-tensorflow": "1.0.4"}
    )
    shards = preparation.shard_paths(corpus_dir, preparation.load_manifest(corpus_dir), "train")
    tokenizer = BertTokenizer(vocab_file, _DO_LOWER_CASE.value)
    corpus = segment_locations.read_corpus(shards, tokenizer)
    counts = np.bincount(corpus.tokens, minlength=tokenizer.vocab_size)
    ranks = np.argsort(np.argsort(-counts, kind="stable"))

    statistics, runs = {side: [] for side in _SIDES}, []
    for seed in _SEEDS.value:
        for side, arrays in (("ours", _ours(shards, tokenizer, seed)), ("google", _google(peer, shards, seed))):
            examples = example_statistics.examples_from(arrays)
            if len(examples.rows) < _MIN_EXAMPLES.value:
                raise UserError(
                    f"--passes={_PASSES.value} gives {len(examples.rows):,} examples of this corpus; "
                    f"expected at least --min_examples={_MIN_EXAMPLES.value}; give more passes"
                )
            locations = example_statistics.locate_segments(corpus, examples)
            statistics[side].append(
                example_statistics.statistics(examples, locations, corpus, tokenizer.mask_id, ranks)
            )
            examples_by_fault = example_statistics.examples_by_fault(
                examples, locations, tokenizer, _MASKED_LM_PROB.value, _MAX_PREDICTIONS.value
            )
            runs.append(
                {"side": side, "seed": seed, "examples": len(examples.rows), "examples_by_fault": examples_by_fault}
            )
    columns = (*statistics["ours"], *statistics["google"])
    rows = [_compare(*row, len(corpus.shards)) for row in zip(*columns, strict=True)]
    rows.append(_compare_passes(*columns))
    sys.exit(_report(corpus, runs, rows))


def _parameters():
    return {
        "max_seq_length": _MAX_SEQ_LENGTH.value,
        "max_predictions_per_seq": _MAX_PREDICTIONS.value,
        "masked_lm_prob": _MASKED_LM_PROB.value,
        "short_seq_prob": _SHORT_SEQ_PROB.value,
    }


def _ours(shards, tokenizer, seed):
    """Our examples as the arrays that peer_google_pretraining_data._arrays describes."""
    from pipelines import pretraining_dataset

    batches = [
        {name: values.numpy() for name, values in batch.items()}
        for batch in pretraining_dataset(
            shards, tokenizer, global_batch_size=1024, epochs=_PASSES.value, seed=seed, **_parameters()
        )
    ]
    arrays = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    arrays["lengths"] = arrays.pop("input_mask").sum(1)
    arrays["num_masked"] = (arrays.pop("masked_lm_weights") > 0).sum(1)
    is_example = arrays["lengths"] > 0  # the last batch has empty rows
    return {name: values[is_example] for name, values in arrays.items()}


def _google(peer, shards, seed):
    """Google's examples as the arrays that _ours returns."""
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as directory:
        text, arrays_file = os.path.join(directory, "corpus.txt"), os.path.join(directory, "arrays.npz")
        with open(text, "wb") as stream:
            for document in tf.data.TFRecordDataset(shards).as_numpy_iterator():
                stream.write(document + b"\n\n")
        peer.ask(
            input_files=[text],
            vocab_file=os.path.abspath(_VOCAB_FILE.value),
            do_lower_case=_DO_LOWER_CASE.value,
            dupe_factor=_PASSES.value,
            seed=seed,
            arrays_file=arrays_file,
            **_parameters(),
        )
        with np.load(arrays_file) as arrays:
            return dict(arrays)


def _compare(ours, ours_again, google, google_again, num_documents):
    """One row of the table. The first four arguments are the same Statistic of four runs."""

    def test(first, second):
        return two_sample_tests.compare(
            first.values, first.documents, second.values, second.documents, num_documents
        )._asdict()

    return {
        "statistic": ours.name,
        "ours": _described(ours),
        "google": _described(google),
        "is_compared": ours.is_compared,
        "test": test(ours, google),
        "google_again": test(google, google_again),
        "ours_again": test(ours, ours_again),
    }


def _compare_passes(*runs):
    """The row for the number of examples in a pass. The test compares the number of examples of each document."""
    name = "examples of a document (A)"
    per_document = [next(statistic.values for statistic in run if statistic.name == name) for run in runs]
    ours, ours_again, google, google_again = (counts / _PASSES.value for counts in per_document)

    def test(first, second):
        return {"clustered_p": two_sample_tests.hotelling_p((first - second)[:, None])}

    return {
        "statistic": "examples of a pass",
        "ours": f"{ours.sum():,.1f}",
        "google": f"{google.sum():,.1f}",
        "is_compared": True,
        "test": test(ours, google),
        "google_again": test(google, google_again),
        "ours_again": test(ours, ours_again),
    }


def _described(statistic):
    values = statistic.values
    if statistic.categories:
        shares = [np.mean(values == number) for number in range(len(statistic.categories))]
        return ", ".join(f"{name} {share:.2%}" for name, share in zip(statistic.categories, shares, strict=True))
    return f"{values.mean():,.2f} ± {values.std():,.2f}"


def _report(corpus, runs, rows):
    """Prints the tables and writes the JSON. Returns the exit code."""
    compared = [row for row in rows if row["is_compared"]]
    limit = _SIGNIFICANCE / len(compared)
    differing = [row["statistic"] for row in compared if row["test"]["clustered_p"] < limit]
    has_faults = any(any(run["examples_by_fault"].values()) for run in runs)
    print(
        f"{len(corpus.shards):,} documents, {len(corpus.sentence_starts) - 1:,} sentences, "
        f"{len(corpus.tokens):,} pieces, {corpus.shards[-1] + 1} shards; {os.path.basename(_VOCAB_FILE.value)}, "
        f"{_PASSES.value} passes, {_parameters()}"
    )
    print(
        "; ".join(
            f"{run['side']}, seed {run['seed']}: {run['examples']:,} examples, "
            f"{sum(map(bool, run['examples_by_fault'].values()))} of {len(run['examples_by_fault'])} rules broken"
            for run in runs
        )
        + "\n"
    )
    for run in runs:
        for fault, count in run["examples_by_fault"].items():
            if count:
                print(f"{run['side']}, seed {run['seed']}: in {count:,} examples {fault}")
    _print_table(rows)
    print(
        f"\n{len(compared)} statistics, least p {min(row['test']['clustered_p'] for row in compared):.2g} "
        f"(Google's two runs {min(row['google_again']['clustered_p'] for row in compared):.2g}, "
        f"our two runs {min(row['ours_again']['clustered_p'] for row in compared):.2g}), limit {limit:.2g}: "
        + (f"they differ in {', '.join(differing)}" if differing else "no difference")
    )
    if _OUTPUT_FILE.value:
        parameters = {**_parameters(), "passes": _PASSES.value}
        figures = {"parameters": parameters, "runs": runs, "rows": rows, "differing": differing}
        storage.write_whole(_OUTPUT_FILE.value, json.dumps(figures, indent=1))
    return 1 if differing or has_faults else 0


def _print_table(rows):
    print(
        "| statistic | ours (mean ± standard deviation, or shares) | Google's | KS distance | "
        "chi-square / degrees | p (plain) | p (documents) | p (documents), Google's two runs | our two runs |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        test = row["test"]
        plain = (
            [f"{test['distance']:.4f}", f"{test['chi_square']:.1f} / {test['degrees']}", f"{test['chi_square_p']:.2g}"]
            if "distance" in test
            else ["", "", ""]
        )
        name = row["statistic"] + ("" if row["is_compared"] else " (not compared)")
        clustered = [f"{row[pair]['clustered_p']:.2g}" for pair in ("test", "google_again", "ours_again")]
        print("| " + " | ".join([name, row["ours"], row["google"], *plain, *clustered]) + " |")


if __name__ == "__main__":
    app.run(main, __doc__)
