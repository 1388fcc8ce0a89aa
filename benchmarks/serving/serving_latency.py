"""Compares the time of sentence vectors from raw text with ONNX Runtime and torch on the same weights.

python -m benchmarks.serving.serving_latency --model=MINILM --saved_model=EXPORT --peer_python=SERVING_ENV/bin/python

MINILM is sentence-transformers/all-MiniLM-L6-v2 in Hugging Face's layout (config.json, model.safetensors, vocab.txt,
tokenizer.json). EXPORT is an export of MINILM with the same pooling and with --litert (--kind=embeddings --layer=-1
--normalize --pool_special_tokens --litert). "ours" is the function that `embed` calls. The SavedModel is timed too.

Every contender gets lists of str and returns the vectors as a numpy array, so the time includes tokenization. Our side
runs in this process. The peers run in SERVING_ENV, which is idle while our side runs. This line makes SERVING_ENV:

python3.11 -m venv SERVING_ENV && SERVING_ENV/bin/pip install -r benchmarks/requirements-serving.txt

A figure is the median of all calls (p50). In each round the benchmark divides our median by that of another contender.
A ratio is the median of these quotients. First the benchmark compares the vectors of all contenders at every size. If
they differ, it times nothing.
"""

import os

from absl import flags

from benchmarks.common import count_flags
from benchmarks.common.peer_process import PeerProcess
from benchmarks.common.report import draw_bars, keep
from benchmarks.common.this_machine import machine
from benchmarks.common.turns import in_turn, median, milliseconds, ratio, texts_of, timed
from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError

flags.DEFINE_string("model", "", "The weights, in Hugging Face's layout.")
flags.DEFINE_string("saved_model", "", "An export of the weights in --model.")
flags.DEFINE_string("peer_python", "", "Interpreter of an environment with benchmarks/requirements-serving.txt.")
_BATCHES = count_flags.define("batches", [1, 32], "Batch sizes.")
_TOKENS = count_flags.define("tokens", [16, 128], "Tokens of each text, [CLS] and [SEP] included.")
_THREADS = flags.DEFINE_integer("threads", 2, "Threads of each contender.", lower_bound=1)
_ROUNDS = flags.DEFINE_integer("rounds", 7, "Number of rounds, in which all contenders run in turn.", lower_bound=1)
_SECONDS = flags.DEFINE_float("seconds", 1.0, "Approximate seconds of a contender in a round.", lower_bound=0.01)
_OUTPUT_FILE = flags.DEFINE_string("output_file", "", "Where to write every figure as JSON.")

OURS, SAVED_MODEL = "ours", "SavedModel"
_VERSIONS = {"torch": "2.13.0", "transformers": "5.23.0", "tokenizers": "0.23.3", "onnxruntime": "1.31.1"}
_LARGEST_DIFFERENCE = 1e-4


def main(arguments):
    del arguments
    model, saved_model, peer_python = app.required("model", "saved_model", "peer_python")
    with app.quiet_start():
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(_THREADS.value)
        tf.config.threading.set_inter_op_parallelism_threads(_THREADS.value)

        from keras_bert_app.export import saved_models
        from keras_bert_app.vectors.embedding import load_embedder
    embed, serve = (
        load_embedder(saved_model, _THREADS.value),
        saved_models.load(saved_model).signatures["serving_default"],
    )
    contenders = {
        OURS: lambda texts: embed([text.encode() for text in texts])[0],
        SAVED_MODEL: lambda texts: serve(text=tf.constant(texts))["embedding"].numpy(),
    }
    os.environ["RAYON_NUM_THREADS"] = str(_THREADS.value)  # for the tokenizers of the peers
    peer = PeerProcess(peer_python, "serving/peer_sentence_vectors.py", "peer_python", _VERSIONS)
    peers = peer.ask(directory=os.path.abspath(model), threads=_THREADS.value)["peers"]
    others = [SAVED_MODEL, *peers]
    texts_by_size = {
        (batch, tokens): texts_of(os.path.join(model, "vocab.txt"), batch, tokens)
        for batch in _BATCHES.value
        for tokens in _TOKENS.value
    }
    differences = {size: _difference(texts, contenders, peer, peers) for size, texts in texts_by_size.items()}
    rows = []
    for (batch, tokens), texts in texts_by_size.items():
        seconds = in_turn(
            {
                **{name: _warm(run, texts) for name, run in contenders.items()},
                **{
                    name: lambda count, name=name, texts=texts: peer.ask(peer=name, texts=texts, calls=count)["seconds"]
                    for name in peers
                },
            },
            _ROUNDS.value,
            _SECONDS.value,
        )
        rows.append({"batch": batch, "tokens": tokens, "difference": differences[batch, tokens], "seconds": seconds})
        print(_line(rows[-1], others), flush=True)
    lines = list(_table(rows, others))
    print("\n" + "\n".join(lines))
    keep(
        _OUTPUT_FILE.value,
        {"machine": machine(("tensorflow",)), "threads": _THREADS.value, "versions": peer.versions, "rows": rows},
        lines,
        lambda path: _draw(rows, path),
    )


def _warm(run, texts):
    """Like turns.timed, with an untimed call before the timed calls, because the peers make one in each turn too."""
    timed_calls = timed(run, texts)

    def seconds(count):
        run(texts)
        return timed_calls(count)

    return seconds


def _difference(texts, contenders, peer, peers):
    """The largest difference between our vectors and those of any other contender.

    Raises:
        UserError: the vectors differ.
    """
    ours = contenders[OURS](texts)
    vectors = {
        **{name: run(texts) for name, run in contenders.items() if name != OURS},
        **{name: peer.ask(peer=name, texts=texts, calls=1, is_shown=True)["vectors"] for name in peers},
    }
    differences = {name: float(abs(ours - other).max()) for name, other in vectors.items()}
    for name, difference in differences.items():
        if not difference <= _LARGEST_DIFFERENCE:  # true for nan too
            raise UserError(
                f"{name}: its vectors differ from ours by {difference:.2g} for {len(texts)} texts; expected "
                f"{_LARGEST_DIFFERENCE:g} at most; give the same weights as --model and --saved_model"
            )
    return max(differences.values())


def _line(row, others):
    shown = ", ".join(f"{name} {median(row['seconds'][name]) * 1e3:.2f} ms" for name in (OURS, *others))
    return f"{row['batch']} x {row['tokens']}: {shown}; largest difference {row['difference']:.1e}"


def _table(rows, others):
    yield f"| batch x tokens | {OURS} p50 | {' | '.join(f'{name} p50 | {OURS} / {name}' for name in others)} |"
    yield "|---|---|" + "---|---|" * len(others)
    for row in rows:
        cells = [f"{median(row['seconds'][OURS]) * 1e3:.2f} ms"]
        for name in others:
            middle, low, high = ratio(row["seconds"][OURS], row["seconds"][name])
            cells += [f"{median(row['seconds'][name]) * 1e3:.2f} ms", f"{middle:.2f} ({low:.2f} to {high:.2f})"]
        yield f"| {row['batch']} x {row['tokens']} | {' | '.join(cells)} |"


def _draw(rows, path):
    panels = {
        f"{row['batch']} x {row['tokens']}": {name: milliseconds(rounds) for name, rounds in row["seconds"].items()}
        for row in rows
    }
    draw_bars(panels, "Sentence vectors from raw text, batch x tokens\nmilliseconds, less is better", path)


if __name__ == "__main__":
    app.run(main, __doc__)
