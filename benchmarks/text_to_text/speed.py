"""Compares the speed of text-to-text models with that of transformers on torch in one run, with the same weights.

python -m benchmarks.text_to_text.speed --config=mini --transformers_python=.venv-peers/bin/python

An entry of --works is training:ROWS or decoding:BEAMS:ROWS. Both sides have a BERT as encoder and a BERT with attention
to the encoder as decoder, each of the size --config, which share no weights. transformers' class is EncoderDecoderModel
with scaled-dot-product attention.

- A training step is forward, backward, clipping at a global norm of 1, and AdamW, with dropout 0.1 and label smoothing
  0.1. Ours runs with each --jit_compile of --ours. theirs runs with each of --theirs: eager, or compile (torch.compile
  of the forward pass and the loss).
- Decoding is a beam search, or a greedy search for 1 beam, in float32. The weights forbid the end piece, so each text
  has --target_length pieces. Ours runs as the function that `export` traces, and as the signature of its SavedModel.
  A small model runs each op on one thread, and the cores share the rows, as in `predict`.
  theirs is `generate` with its cache.

All rows are full. Each contender runs in a process of its own, on the first GPU or on the CPU. First each contender
works alone:

- For training, the losses of three steps without dropout must be the same within 1e-4 (bfloat16: 1e-2).
- For decoding, all best texts and 95 % of the texts of all beams must be the same. The scores of the same texts must
  agree within 1e-4.

If they differ, the command ends with an error. Otherwise the contenders take turns, round after round.

A figure is the median of all calls. In each round the command divides the median of the fastest of theirs by that of
our fastest contender, and the ratio is the median of these quotients.

The CPU time of a call is the sum over all threads. If other programs use the cores, give --threads=1 and compare the
CPU times, which change less.

Results go to OUTPUT_DIR/text_to_text_speed.json, .md and .png. If the JSON file has a work already, the command does
not measure it again.
"""

import os

from absl import flags

from benchmarks.common import report, turns
from benchmarks.common.identity import code_digest
from benchmarks.common.resumable import results_of
from benchmarks.common.this_machine import machine
from benchmarks.step.training_step_table import is_ours, spread_of, summary
from benchmarks.text_to_text import speed_contenders, speed_files
from benchmarks.text_to_text.speed_contenders import VERSIONS, Contender
from benchmarks.text_to_text.speed_files import TRAINING
from keras_bert_app.cli.common import app
from keras_bert_app.config.bert_config import SIZES, BertConfig
from keras_bert_app.config.training_config import COMPILATIONS
from keras_bert_app.errors import UserError
from pipelines import storage

_WORKS = flags.DEFINE_list(
    "works",
    ["training:64", "decoding:5:1", "decoding:5:32", "decoding:1:1", "decoding:1:32"],
    "What to measure: training:ROWS or decoding:BEAMS:ROWS.",
)
_CONFIG = flags.DEFINE_string("config", "mini", "A published size, or a configuration file.")
_VOCAB_SIZE = flags.DEFINE_integer("vocab_size", 8000, "Pieces of the vocabulary of a published size.", lower_bound=32)
_SOURCE_LENGTH = flags.DEFINE_integer("source_length", 32, "Pieces of a source.", lower_bound=8)
_TARGET_LENGTH = flags.DEFINE_integer("target_length", 32, "Pieces of a target.", lower_bound=1)
_PRECISION = flags.DEFINE_enum("precision", "float32", ["float32", "bfloat16"], "Compute type of training.")
_OURS = flags.DEFINE_list("ours", ["auto"], "Values of --jit_compile for our training.")
_THEIRS = flags.DEFINE_list("theirs", ["eager"], "Ways of transformers' training: eager, compile.")
_PYTHON = flags.DEFINE_string(
    "transformers_python", ".venv-peers/bin/python", "Interpreter with benchmarks/requirements-hf.txt."
)
_THREADS = flags.DEFINE_integer("threads", 0, "Threads of each contender; 0 for all cores.", lower_bound=0)
_ROUNDS = flags.DEFINE_integer("rounds", 7, "Number of rounds. A contender takes a turn in each.", lower_bound=1)
_SECONDS = flags.DEFINE_float("seconds", 5, "Approximate seconds of a turn, at least one call.", lower_bound=0.0)
_OUTPUT_DIR = flags.DEFINE_string("output_dir", "runs/bench", "Where results go.")


def main(arguments):
    del arguments
    config = _checked()
    facts = machine(("tensorflow", "keras"))
    threads = _THREADS.value or facts["cores"]
    os.environ.update(
        TF_ENABLE_ONEDNN_OPTS="1",
        TF_CPP_MIN_LOG_LEVEL="3",
        # torch reads the first, TensorFlow the others.
        **dict.fromkeys(("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), str(threads)),
    )
    settings = {
        "machine": facts,
        "threads": threads,
        "peer": VERSIONS["transformers"],
        "config": config.to_dict(),
        "source_length": _SOURCE_LENGTH.value,
        "target_length": _TARGET_LENGTH.value,
        "precision": _PRECISION.value,
        "ours": _OURS.value,
        "theirs": _THEIRS.value,
        "code": code_digest(),
        "rounds": _ROUNDS.value,
        "seconds": _SECONDS.value,
    }
    path = os.path.join(_OUTPUT_DIR.value, "text_to_text_speed")
    done = results_of(
        _WORKS.value,
        lambda name: measured(name, config),
        f"{path}.json",
        settings,
        shown=lambda figures: f"{len(figures)} contenders measured",
    )
    text = "\n".join([report.in_words(settings["machine"]), "", *table(done)])
    print("\n" + text)
    storage.write_whole(f"{path}.md", text + "\n")
    draw(done, f"{path}.png")


def _checked():
    """Checks the flags. Returns the BertConfig of --config."""
    for name in _WORKS.value:
        speed_files.parsed(name)
    for flag, known in ((_OURS, ("auto", *COMPILATIONS)), (_THEIRS, ("eager", "compile"))):
        if not flag.value or set(flag.value) - set(known):
            raise UserError(f"--{flag.name}={','.join(flag.value)}: expected one or more of {', '.join(known)}")
    if not os.path.exists(_PYTHON.value):
        raise UserError(
            f"--transformers_python={_PYTHON.value}: there is no such file; run `make bench`, which builds the "
            "environment, or give another interpreter"
        )
    if _CONFIG.value in SIZES:
        config = BertConfig.of_size(_CONFIG.value, vocab_size=_VOCAB_SIZE.value)
    else:
        config = BertConfig.from_json_file(_CONFIG.value, print)
    if max(_SOURCE_LENGTH.value, _TARGET_LENGTH.value) > config.max_position_embeddings:
        raise UserError(
            f"--source_length={_SOURCE_LENGTH.value} --target_length={_TARGET_LENGTH.value}: expected at most "
            f"{config.max_position_embeddings}, the positions of --config={_CONFIG.value}"
        )
    return config


def contenders(kind: str) -> list[Contender]:
    """The contenders of a kind of work, ours first.

    Args:
        kind: str. TRAINING or DECODING.
    """
    if kind == TRAINING:
        ours, theirs, precision = _OURS.value, _THEIRS.value, _PRECISION.value
    else:
        ours, theirs, precision = ["function", "SavedModel"], ["generate"], "float32"
    return [
        *(Contender("ours", way, precision) for way in ours),
        *(Contender("transformers", way, precision, _PYTHON.value) for way in theirs),
    ]


def measured(name: str, config: BertConfig) -> dict:
    """Measures an entry of --works. Returns a dict of contender's name -> figures.

    Args:
        name: str. The entry.
        config: BertConfig.
    """
    work = speed_files.parsed(name)
    with app.quiet_start():
        import tensorflow  # noqa: F401 - its first messages stay hidden
    with speed_files.written(config, work, _SOURCE_LENGTH.value, _TARGET_LENGTH.value) as files:
        looks = {}
        for contender in contenders(work.kind):
            print(f"{name}: {contender.name} works alone", flush=True)
            looks[contender.name] = speed_contenders.looked_at(contender, files)
        differences = speed_contenders.check_same(work.kind, looks, contenders(work.kind)[0].precision)
        for contender, difference in differences.items():
            print(f"  {contender}: {_what_is_same(work, looks[contender])}, difference {difference:.1e}", flush=True)
        figures = speed_contenders.timed(contenders(work.kind), files, _ROUNDS.value, _SECONDS.value)
    for contender, entry in figures.items():
        entry["difference"] = differences[contender]
        entry |= {"losses": looks[contender]["losses"]} if work.kind == TRAINING else {}
    return figures


def _what_is_same(work, look):
    if work.kind == TRAINING:
        return f"losses {' '.join(f'{loss:.5f}' for loss in look['losses'])}"
    texts = look["result"]["ids"]
    return f"{len(texts)} x {len(texts[0])} texts of {len(texts[0][0])} pieces"


def table(done: dict):
    """Yields the lines of a table in Markdown, a line for each work and contender.

    Args:
        done: dict. Work -> contender's name -> figures.
    """
    yield "| work | contender | ms (lowest - highest of rounds) | per second | CPU ms | difference | first call, s |"
    yield "|---|---|---|---|---|---|---|"
    ratios = []
    for name, figures in done.items():
        medians, peer, ours, ratio = summary(figures)
        for contender, entry in figures.items():
            cells = [
                name,
                f"{contender} ({entry['compiled']})" if contender == "ours auto" else contender,
                spread_of(entry["rounds"]),
                _rate(speed_files.parsed(name), medians[contender] / 1e3),
                spread_of(entry["cpu_rounds"]),
                f"{entry['difference']:.0e}",
                f"{entry['seconds_to_first_call']:.1f}",
            ]
            yield f"| {' | '.join(cells)} |"
        cpu = turns.ratio(figures[peer]["cpu_rounds"], figures[ours]["cpu_rounds"])
        ratios.append(
            f"- {name}: {ours} is {ratio[0]:.2f} ({ratio[1]:.2f} - {ratio[2]:.2f}) times as fast as {peer}; "
            f"by CPU time {cpu[0]:.2f} ({cpu[1]:.2f} - {cpu[2]:.2f})"
        )
    yield ""
    yield from ratios


def _rate(work, seconds):
    if work.kind == TRAINING:
        target, source = (work.rows * flag.value for flag in (_TARGET_LENGTH, _SOURCE_LENGTH))
        return f"{target / seconds:,.0f} target tokens, {(target + source) / seconds:,.0f} tokens"
    return f"{work.rows / seconds:,.1f} sentences"


def draw(done: dict, path: str) -> None:
    """Draws bars of the contenders, a panel for each work.

    Args:
        done: dict. Work -> contender's name -> figures.
        path: str. File to write.
    """
    panels = {
        name: {contender: turns.milliseconds(entry["rounds"]) for contender, entry in figures.items()}
        for name, figures in done.items()
    }
    report.draw_bars(panels, "Text to text beside transformers\nmilliseconds, less is better", path, is_ours)


if __name__ == "__main__":
    app.run(main, __doc__)
