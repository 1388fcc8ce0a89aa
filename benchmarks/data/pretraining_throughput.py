"""Compares our speed from raw text to masked rows of S pieces with that of Hugging Face's and Google's code.

taskset -c 0,1 python -m benchmarks.data.pretraining_throughput --corpus_dir=CORPUS \\
    --vocab_file=VOCAB --hf_python=HF_ENV/bin/python \\
    --google_python=GOOGLE_ENV/bin/python --output_file=throughput.json

CORPUS is a directory that prepare_corpus wrote. All contenders read documents of CORPUS. They run in turn, round after
round. A figure is the median of the rounds, and a ratio is the median of the rounds' ratios. The clock runs from
opening the text files (in the page cache) to the last batch. The contenders load vocabularies and build graphs before
the clock starts. The benchmark prints how long our side takes to build its dataset and to make the first batch. The
first pass of each contender is a warm-up without a clock. The benchmark checks the share of real tokens that this pass
masks. If a share is wrong, it shows no times. The contenders:

- ours: pretraining_dataset over the shards: segment pairs with random and true next sentences, masks 80/10/10, a
  permuted order, static shapes. Rows are padded, as in BERT.
- transformers: tokenizer, grouping into full rows and DataCollatorForLanguageModeling, as in its run_mlm.py. One
  contender has a DataLoader in the main process and the threads of tokenizers. Another has two workers and no threads.
  Both do less work than ours: no pairs, no next-sentence labels, no shuffling, and every row is full.
- google-research/bert: create_pretraining_data. It tokenizes once and masks the text --dupe_factor times. It
  writes TFRecord files. Training must read and parse them again, and that time is not counted.

Tokens are counted twice: with padding (S for every row), which is the input of an accelerator, and without. The peers'
environments:
python3.11 -m venv HF_ENV && HF_ENV/bin/pip install -r benchmarks/requirements-hf.txt
python3.11 -m venv GOOGLE_ENV && GOOGLE_ENV/bin/pip install -r benchmarks/requirements-google.txt
"""

import os
import statistics
import tempfile
import time

from absl import flags

from benchmarks.common import report, this_machine
from benchmarks.common.peer_process import PeerProcess
from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError

_CORPUS_DIR = flags.DEFINE_string("corpus_dir", "", "Directory that prepare_corpus wrote.")
_VOCAB_FILE = flags.DEFINE_string("vocab_file", "", "WordPiece vocabulary, one piece on each line.")
_DO_LOWER_CASE = flags.DEFINE_bool("do_lower_case", True, "Whether the vocabulary is uncased.")
_HF_PYTHON = flags.DEFINE_string(
    "hf_python", "", "Interpreter with torch and transformers; without it transformers is left out."
)
_GOOGLE_PYTHON = flags.DEFINE_string(
    "google_python", "", "Interpreter with bert-tensorflow==1.0.4; without it Google's script is left out."
)
_HF_MEGABYTES = flags.DEFINE_float("hf_megabytes", 8, "Size of transformers' text (10^6 bytes).", lower_bound=0.01)
_GOOGLE_MEGABYTES = flags.DEFINE_float("google_megabytes", 0.5, "Size of Google's text (10^6 bytes).", lower_bound=0.01)
_DUPE_FACTOR = flags.DEFINE_integer("dupe_factor", 10, "How often Google's script masks its text.", lower_bound=1)
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Timed rounds.", lower_bound=1)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 256, "Rows of a batch, ours and transformers'.", lower_bound=1)
_MAX_SEQ_LENGTH = flags.DEFINE_integer("max_seq_length", 128, "S, the length of a row.", lower_bound=5)
_MAX_PREDICTIONS = flags.DEFINE_integer("max_predictions_per_seq", 20, "P, most predictions of a row.", lower_bound=1)
_OUTPUT_FILE = flags.DEFINE_string("output_file", "", "Where to write every figure as JSON.")

_MASKED_LM_PROB = 0.15
# Allowed difference of the masked share. masked_share also allows half a piece for each row, for rounding. transformers
# masks no special pieces, which changes the share by 0.0008 for documents of 360 pieces. Chance changes it by 0.0003.
_SHARE_TOLERANCE = 0.005
_OURS = "ours"
_KINDS = ("padded_tokens", "real_tokens")


def main(arguments):
    del arguments
    corpus_dir, vocab_file = app.required("corpus_dir", "vocab_file")
    with app.quiet_start():
        from pipelines import BertTokenizer, pretraining_dataset
        from pipelines.corpus import preparation
    manifest = preparation.load_manifest(corpus_dir)
    shards = preparation.shard_paths(corpus_dir, manifest, "train")
    tokenizer = BertTokenizer(vocab_file, _DO_LOWER_CASE.value)
    megabytes = {_OURS: manifest["train"]["text_bytes"] / 1e6}
    started = time.perf_counter()
    dataset = pretraining_dataset(
        shards,
        tokenizer,
        global_batch_size=_BATCH_SIZE.value,
        epochs=1,
        max_seq_length=_MAX_SEQ_LENGTH.value,
        masked_lm_prob=_MASKED_LM_PROB,
        max_predictions_per_seq=_MAX_PREDICTIONS.value,
    )
    next(iter(dataset))
    seconds_to_first_batch = time.perf_counter() - started
    contenders = {_OURS: lambda: _pass_over(dataset)}
    with tempfile.TemporaryDirectory() as directory:
        if _HF_PYTHON.value:
            text, size = _text(shards, directory, _HF_MEGABYTES.value, b" ", b"\n")
            for name, run in _hugging_face(text, tokenizer.vocab_size).items():
                contenders[name], megabytes[name] = run, size
        if _GOOGLE_PYTHON.value:
            text, size = _text(shards, directory, _GOOGLE_MEGABYTES.value, b"\n", b"\n\n")
            for name, run in _google(text).items():
                contenders[name], megabytes[name] = run, size
        shares = {name: masked_share(name, run()) for name, run in contenders.items()}
        results = {name: [] for name in contenders}
        for _ in range(_ROUNDS.value):
            for name, run in contenders.items():
                results[name].append(run())
    rows = [_row(name, megabytes[name], shares[name], runs) for name, runs in results.items()]
    _report(rows, seconds_to_first_batch)


def _request(text):
    """The part of a request that is the same for both peers."""
    return {
        "input_files": [text],
        "vocab_file": os.path.abspath(_VOCAB_FILE.value),
        "do_lower_case": _DO_LOWER_CASE.value,
        "max_seq_length": _MAX_SEQ_LENGTH.value,
        "masked_lm_prob": _MASKED_LM_PROB,
    }


def _hugging_face(text, vocab_size):
    """Name -> function that runs one pass by transformers."""
    versions = {"torch": "2.13.0", "transformers": "5.23.0"}
    peer = PeerProcess(_HF_PYTHON.value, "data/peer_hf_pretraining_data.py", "hf_python", versions)
    request = {**_request(text), "vocab_size": vocab_size, "batch_size": _BATCH_SIZE.value}
    return {
        f"transformers run_mlm, {workers or 'no'} workers": lambda workers=workers: peer.ask(**request, workers=workers)
        for workers in (0, 2)
    }


def _google(text):
    """Name -> function that runs one pass by Google's script."""
    versions = {"bert-tensorflow": "1.0.4"}
    peer = PeerProcess(_GOOGLE_PYTHON.value, "data/peer_google_pretraining_data.py", "google_python", versions)
    request = {
        **_request(text),
        "max_predictions_per_seq": _MAX_PREDICTIONS.value,
        "short_seq_prob": 0.1,
        "dupe_factor": _DUPE_FACTOR.value,
        "seed": 12345,
    }
    return {f"create_pretraining_data, dupe_factor {_DUPE_FACTOR.value}": lambda: peer.ask(**request)}


def _pass_over(dataset):
    """The figures of one of our passes, in the form of a peer's answer."""
    started, cpu_before, examples, real_tokens, labels = time.perf_counter(), time.process_time(), 0, 0, 0
    for batch in dataset:
        input_mask = batch["input_mask"].numpy()
        examples += int(input_mask[:, 0].sum())  # the last batch has empty rows
        real_tokens += int(input_mask.sum())
        labels += int(batch["masked_lm_weights"].numpy().sum())
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu_before,
        "examples": examples,
        "real_tokens": real_tokens,
        "labels": labels,
    }


def masked_share(name: str, run: dict) -> float:
    """The share of real tokens that a contender masks.

    Args:
        name: str. The contender.
        run: dict. The figures of one of its passes.

    Raises:
        UserError: the share differs from _MASKED_LM_PROB by more than the tolerance.
    """
    tokens = max(1, run["real_tokens"])
    share, tolerance = run["labels"] / tokens, _SHARE_TOLERANCE + 0.5 * run["examples"] / tokens
    if not abs(share - _MASKED_LM_PROB) <= tolerance:
        raise UserError(
            f"{name}: {share:.4f} of {run['real_tokens']:,} real tokens are masked; expected {_MASKED_LM_PROB:g} "
            f"within {tolerance:.4f}, because otherwise the contenders do not do the same work. Give longer documents, "
            f"more text, and for rows of {_MAX_SEQ_LENGTH.value} tokens at least --max_predictions_per_seq="
            f"{round(_MASKED_LM_PROB * _MAX_SEQ_LENGTH.value)}"
        )
    return share


def _text(shards, directory, megabytes, between_sentences, after_document):
    """Writes the first documents of the shards to a file. Returns (its path, its size in 10^6 bytes)."""
    import tensorflow as tf

    left, path = megabytes * 1e6, os.path.join(directory, f"{len(after_document)}.txt")
    with open(path, "wb") as stream:
        for document in tf.data.TFRecordDataset(shards).as_numpy_iterator():
            if left <= 0:
                break
            left -= stream.write(document.replace(b"\n", between_sentences) + after_document)
    return path, os.path.getsize(path) / 1e6


def _row(name, megabytes, share, runs):
    """Figures of one contender. The lists `*_per_second` have an entry for each round."""
    padded = [run["examples"] * _MAX_SEQ_LENGTH.value for run in runs]
    real = [run["real_tokens"] for run in runs]
    return {
        "contender": name,
        "megabytes": megabytes,
        "examples": runs[0]["examples"],
        "masked_share": share,
        "runs": runs,
        "padded_tokens_per_second": [tokens / run["seconds"] for tokens, run in zip(padded, runs, strict=True)],
        "real_tokens_per_second": [tokens / run["seconds"] for tokens, run in zip(real, runs, strict=True)],
        "cores": statistics.median(run["cpu_seconds"] / run["seconds"] for run in runs),
    }


def _report(rows, seconds_to_first_batch):
    """Prints the table and writes it, with the figures and the picture, if --output_file is given."""
    machine = this_machine.machine(("tensorflow", "tensorflow-text"))
    ours = rows[0]
    print(report.in_words(machine))
    print(
        f"{_ROUNDS.value} rounds, S={_MAX_SEQ_LENGTH.value}, P={_MAX_PREDICTIONS.value}, "
        f"{_BATCH_SIZE.value} rows a batch, {os.path.basename(_VOCAB_FILE.value)}; "
        f"our dataset is built and gives its first batch after {seconds_to_first_batch:.1f} s\n"
    )
    lines = [
        "| contender | MB of text | examples | masked of real tokens | 1,000 tokens/s with padding, median "
        "| lowest to highest | without padding, median | lowest to highest | ours is faster by, with padding | without "
        "| cores busy |",
        "|---" * 11 + "|",
    ]
    for row in rows:
        cells = [row["contender"], f"{row['megabytes']:.1f}", f"{row['examples']:,}", f"{row['masked_share']:.4f}"]
        for kind in _KINDS:
            speeds = [speed / 1e3 for speed in row[f"{kind}_per_second"]]
            cells += [f"{statistics.median(speeds):,.0f}", f"{min(speeds):,.0f} to {max(speeds):,.0f}"]
        for kind in _KINDS:
            row[f"{kind}_ratio"] = statistics.median(
                mine / theirs
                for mine, theirs in zip(ours[f"{kind}_per_second"], row[f"{kind}_per_second"], strict=True)
            )
            cells.append(f"{row[f'{kind}_ratio']:.1f}")
        lines.append("| " + " | ".join([*cells, f"{row['cores']:.1f}"]) + " |")
    print("\n".join(lines))
    figures = {
        "machine": machine,
        "seconds_to_first_batch": seconds_to_first_batch,
        "batch_size": _BATCH_SIZE.value,
        "max_seq_length": _MAX_SEQ_LENGTH.value,
        "max_predictions_per_seq": _MAX_PREDICTIONS.value,
        "do_lower_case": _DO_LOWER_CASE.value,
        "vocab_file": os.path.basename(_VOCAB_FILE.value),
        "contenders": rows,
    }
    report.keep(_OUTPUT_FILE.value, figures, lines, lambda path: _draw(rows, path))


def _draw(rows, path):
    def speeds(row, kind):
        thousands = [speed / 1e3 for speed in row[f"{kind}_per_second"]]
        return statistics.median(thousands), min(thousands), max(thousands)

    panels = {
        title: {row["contender"]: speeds(row, kind) for row in rows}
        for title, kind in zip(("with padding", "without"), _KINDS, strict=True)
    }
    report.draw_bars(panels, "Raw text to masked rows beside the peers\n1,000 tokens/s, more is better", path)


if __name__ == "__main__":
    app.run(main, __doc__)
