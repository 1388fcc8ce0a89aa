"""Times the exact tokenizer beside its peers on the same lines in one run, and compares their ids.

python -m benchmarks.tokenizer.tokenizer_speed --input_files=ENWIKI_DIRECTORY \\
    --vocab_file=VOCAB --google_python=GOOGLE_ENV/bin/python

The contenders run in turn, round after round. A figure is the median of the rounds, and a ratio is the median of the
rounds' ratios. Files are read before any clock starts. Each contender has the lines in memory in its own form. For the
TensorFlow contenders this is a string tensor. tf.data takes --batch_size lines at a time and maps over --threads
batches at once, and the time to make the iterator counts. tokenizers and Google's FullTokenizer have lists of str.

The clock stops when the ids exist: as arrays of TensorFlow, as lists of FullTokenizer, and as Encoding objects of
tokenizers. An Encoding makes its list of ids only when a program asks for it, which favours tokenizers. A first pass
without a clock counts the lines whose ids differ from ours.

Google's FullTokenizer, which is written in Python, tokenizes only every k-th line (--google_megabytes). It runs in its
own environment:
python3.11 -m venv GOOGLE_ENV && GOOGLE_ENV/bin/pip install -r benchmarks/requirements-google.txt
"""

import os
import statistics
import tempfile
import time

import numpy as np
from absl import flags

from benchmarks.common import report, this_machine
from benchmarks.common.peer_process import PeerProcess
from benchmarks.tokenizer import tokenizer_peers
from keras_bert_app.cli.common import app

_INPUT_FILES = flags.DEFINE_string("input_files", "", "Text, read line by line: a file, a directory or a glob.")
_VOCAB_FILE = flags.DEFINE_string("vocab_file", "", "The vocabulary, one piece on each line.")
_DO_LOWER_CASE = flags.DEFINE_bool("do_lower_case", True, "Whether the vocabulary is uncased.")
_MAX_MEGABYTES = flags.DEFINE_float("max_megabytes", None, "Most text to read (10^6 bytes).", lower_bound=0)
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Timed rounds.", lower_bound=1)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 1024, "Lines in a batch of tf.data or encode_batch.", lower_bound=1)
_THREADS = flags.DEFINE_integer("threads", 2, "Threads of tf.data and of tokenizers.", lower_bound=1)
_GOOGLE_PYTHON = flags.DEFINE_string("google_python", "", "Interpreter with bert-tensorflow==1.0.4; empty: none.")
_GOOGLE_MEGABYTES = flags.DEFINE_float("google_megabytes", 1, "Text for FullTokenizer (10^6 bytes).", lower_bound=0.01)
_OUTPUT_FILE = flags.DEFINE_string("output_file", "", "File for all figures, as JSON; empty: none.")

_OURS = "ours"
_REFERENCE = "tokenizers encode_batch"


def main(arguments):
    del arguments
    input_files, vocab_file = app.required("input_files", "vocab_file")
    os.environ["RAYON_NUM_THREADS"] = str(_THREADS.value)  # tokenizers reads it in its first call
    with app.quiet_start():
        import tensorflow as tf

        from pipelines.wordpiece.vocabulary import load_vocabulary
    lines = tokenizer_peers.read_lines(input_files.split(","), _MAX_MEGABYTES.value)
    vocabulary = load_vocabulary(vocab_file)
    contenders = {
        **_in_graph(tf.constant([line.encode() for line in lines]), vocab_file, vocabulary),
        **_hugging_face(lines, vocabulary),
    }
    line_slices = {name: slice(None) for name in contenders}
    if _GOOGLE_PYTHON.value:
        name = "google-research/bert FullTokenizer"
        line_slices[name] = slice(None, None, max(1, round(_megabytes(lines) / _GOOGLE_MEGABYTES.value)))
        contenders[name] = _google(lines[line_slices[name]], vocab_file)
    else:
        print("Google's FullTokenizer is left out; give --google_python to include it.\n")

    ids = {name: collect() for name, (_, collect) in contenders.items()}  # also warms up every contender
    seconds = {name: [] for name in contenders}
    for _ in range(_ROUNDS.value):
        for name, (run, _) in contenders.items():
            seconds[name].append(run())
    rows = []
    for name in contenders:
        texts, expected = lines[line_slices[name]], ids[_OURS][line_slices[name]]
        rows.append(
            {
                "contender": name,
                "megabytes": _megabytes(texts),
                "lines": len(texts),
                "megabytes_per_second": [_megabytes(texts) / taken for taken in seconds[name]],
                "pieces": sum(map(len, ids[name])),
                "pieces_ours": sum(map(len, expected)),
                "lines_that_differ": sum(a != b for a, b in zip(ids[name], expected, strict=True)),
            }
        )
    _report(rows)


def _megabytes(lines):
    return sum(len(line.encode()) for line in lines) / 1e6


def _timed(run):
    def timed_run():
        started = time.perf_counter()
        run()
        return time.perf_counter() - started

    return timed_run


def _in_graph(lines, vocab_file, vocabulary):
    """The TensorFlow contenders.

    Args:
        lines: string tensor [N].
        vocab_file: str. The vocabulary.
        vocabulary: list of str. Its pieces.

    Returns:
        dict. Name -> (function that tokenizes all lines and returns the seconds, function that returns the ids of each
        line as lists).
    """
    import keras_hub
    import tensorflow as tf
    import tensorflow_text as tf_text

    from pipelines.wordpiece.tokenizer import MAX_CHARACTERS_PER_WORD, BertTokenizer

    do_lower_case, num_lines = _DO_LOWER_CASE.value, len(lines)
    ours = BertTokenizer(vocab_file, do_lower_case)
    fast = tf_text.FastBertTokenizer(
        vocabulary,
        token_out_type=tf.int32,
        max_bytes_per_word=MAX_CHARACTERS_PER_WORD,
        lower_case_nfd_strip_accents=do_lower_case,
    )
    hub = keras_hub.tokenizers.BertTokenizer(vocabulary, lowercase=do_lower_case, strip_accents=do_lower_case)
    options = tf.data.Options()
    options.threading.private_threadpool_size = _THREADS.value
    options.deterministic = True

    def contender(tokenize):
        def batch(first):
            result = tokenize(lines[first : first + _BATCH_SIZE.value])
            ids, *spans = result if isinstance(result, tuple) else (result,)
            return ids.flat_values, ids.row_splits, *(span.flat_values for span in spans)

        dataset = (
            tf.data.Dataset.range(0, num_lines, _BATCH_SIZE.value)
            .map(batch, num_parallel_calls=_THREADS.value)
            .with_options(options)
        )

        def run():
            for _ in dataset:
                pass

        def collect():
            return [
                row for ids, splits, *_ in dataset for row in tf.RaggedTensor.from_row_splits(ids, splits).to_list()
            ]

        return _timed(run), collect

    return {
        _OURS: contender(ours.tokenize),
        "ours, with offsets": contender(ours.tokenize_with_offsets),
        "tf_text.FastBertTokenizer": contender(fast.tokenize),
        "keras_hub BertTokenizer": contender(hub.tokenize),
    }


def _hugging_face(lines, vocabulary):
    """The contenders that use the package tokenizers, as _in_graph returns its contenders."""
    tokenizer = tokenizer_peers.hf_tokenizer(vocabulary, _DO_LOWER_CASE.value)
    batches = [lines[i : i + _BATCH_SIZE.value] for i in range(0, len(lines), _BATCH_SIZE.value)]

    def contender(method, parallelism):
        def encode():
            os.environ["TOKENIZERS_PARALLELISM"] = parallelism  # tokenizers reads it in each call
            for batch in batches:
                yield method(batch, add_special_tokens=False)

        def run():
            for _ in encode():
                pass

        return _timed(run), lambda: [encoding.ids for batch in encode() for encoding in batch]

    contenders = {
        _REFERENCE: contender(tokenizer.encode_batch, "true"),
        "tokenizers encode_batch, no parallelism": contender(tokenizer.encode_batch, "false"),
    }
    if hasattr(tokenizer, "encode_batch_fast"):  # since 0.20; it computes no offsets
        contenders["tokenizers encode_batch_fast"] = contender(tokenizer.encode_batch_fast, "true")
    return contenders


def _google(lines, vocab_file):
    """The two functions of Google's tokenizer, as _in_graph returns them. Its process measures the time."""
    versions = {"bert-tensorflow": "1.0.4"}
    peer = PeerProcess(_GOOGLE_PYTHON.value, "tokenizer/peer_google_tokenizer.py", "google_python", versions)
    peer.ask(vocab_files=[os.path.abspath(vocab_file)], do_lower_case=_DO_LOWER_CASE.value)

    def collect():
        with tempfile.TemporaryDirectory() as directory:
            arrays_file = os.path.join(directory, "arrays.npz")
            peer.ask(texts=lines, arrays_file=arrays_file)
            with np.load(arrays_file) as arrays:
                ends = np.cumsum(arrays["counts_0"])
                return [row.tolist() for row in np.split(arrays["ids_0"], ends[:-1])]

    return lambda: peer.ask(texts=lines)["seconds"], collect


def _report(rows):
    """Prints the table, and writes it with all figures if --output_file is given."""
    packages = ("tensorflow", "tensorflow-text", "keras-hub", "tokenizers")
    machine = this_machine.machine(packages)
    reference = next(row for row in rows if row["contender"] == _REFERENCE)["megabytes_per_second"]
    print(report.in_words(machine))
    print(
        f"{rows[0]['megabytes']:.1f} MB in {rows[0]['lines']:,} lines, {_ROUNDS.value} rounds, "
        f"{_BATCH_SIZE.value} lines a batch, {_THREADS.value} threads, {os.path.basename(_VOCAB_FILE.value)}\n"
    )
    lines = [
        f"| contender | MB/s, median | lowest to highest | times {_REFERENCE} | pieces | lines other than ours |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        speeds = row["megabytes_per_second"]
        row["median"] = statistics.median(speeds)
        row["ratio"] = statistics.median(mine / theirs for mine, theirs in zip(speeds, reference, strict=True))
        whole = row["lines"] == rows[0]["lines"]
        part = "" if whole else f" of {row['pieces_ours']:,} in {row['megabytes']:.1f} MB"
        lines.append(
            f"| {row['contender']} | {row['median']:.2f} | {min(speeds):.2f} to {max(speeds):.2f} | "
            f"{row['ratio']:.2f} | {row['pieces']:,}{part} | {row['lines_that_differ']:,} of {row['lines']:,} |"
        )
    print("\n".join(lines))
    figures = {
        "machine": machine,
        "batch_size": _BATCH_SIZE.value,
        "threads": _THREADS.value,
        "do_lower_case": _DO_LOWER_CASE.value,
        "vocab_file": os.path.basename(_VOCAB_FILE.value),
        "contenders": rows,
    }
    report.keep(_OUTPUT_FILE.value, figures, lines, lambda path: _draw(rows, path))


def _draw(rows, path):
    speeds = {
        row["contender"]: (row["median"], min(row["megabytes_per_second"]), max(row["megabytes_per_second"]))
        for row in rows
    }
    report.draw_bars({"the same lines": speeds}, "WordPiece beside its peers\nMB/s, more is better", path)


if __name__ == "__main__":
    app.run(main, __doc__)
