"""Shows pre-training examples as a trainer gets them (pieces, masks, labels, segments), and their statistics.

python -m keras_bert_app.cli.inspect_data --workdir=runs/mine --num=5
python -m keras_bert_app.cli.inspect_data --corpus_dir=corpus --vocab_file=vocab.txt --masking=span --output_dir=report

With --workdir the data settings are those of the run. Without it they are flags, with the names and defaults of
pretrain. --output_dir receives statistics.json and statistics.png.
"""

import itertools
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from absl import flags

from keras_bert_app.cli.common import app, config_flags, written_places
from keras_bert_app.cli.common.output_files import make_place_for, write_files
from keras_bert_app.config.pretraining_config import DATA_FIELDS, PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.runs.work_directory import ExistingRun
from keras_bert_app.terminal import screen
from keras_bert_app.terminal.progress import Progress
from pipelines import storage
from pipelines.choices import TOKENIZERS
from pipelines.wordpiece import vocabulary_checks
from pipelines.wordpiece.vocabulary import load_vocabulary

_WORKDIR = flags.DEFINE_string("workdir", "", "Directory of the run whose examples are shown; else give --corpus_dir.")
_VOCAB_FILE = flags.DEFINE_string("vocab_file", "", "WordPiece vocabulary, with --corpus_dir.")
_TOKENIZER = flags.DEFINE_enum(
    "tokenizer", "wordpiece", TOKENIZERS, "What the vocabulary has, with --corpus_dir: pieces or symbols."
)
_DO_LOWER_CASE = flags.DEFINE_bool("do_lower_case", True, "Whether the vocabulary is uncased, with --corpus_dir.")
_NUM = flags.DEFINE_integer("num", 5, "How many examples are shown.", lower_bound=0)
_STEP = flags.DEFINE_integer("step", None, "Begin with the examples that follow this training step.", lower_bound=0)
_POSITION = flags.DEFINE_list("position", None, "Begin at a position of a checkpoint's manifest: epoch,block,offset.")
_STATISTICS_BATCHES = flags.DEFINE_integer(
    "statistics_batches", 1000, "Batches that are counted; 0: no statistics.", lower_bound=0
)
_OUTPUT_DIR = flags.DEFINE_string("output_dir", "", "Directory for statistics.json and statistics.png.")
written_places.define_overwrite()
_COLOR = flags.DEFINE_enum(
    "color", "auto", screen.COLORS, "When to print colours. auto: on a terminal, unless NO_COLOR is set."
)
_wanted = config_flags.define_flags(DATA_FIELDS, is_path=("corpus_dir", "lexicon_file"))


def main(arguments: list[str]) -> None:
    run, position = _checked_run(), _checked_position()
    if _OUTPUT_DIR.value:
        if not _STATISTICS_BATCHES.value:
            raise UserError("--output_dir is for the statistics; give --statistics_batches more than 0")
        written = [os.path.join(_OUTPUT_DIR.value, name) for name in ("statistics.json", "statistics.png")]
        make_place_for(written[0], "output_dir")
        written_places.check_new(written, "output_dir")
    with app.quiet_start():
        from keras_bert_app.inspection import source as sources
        from pipelines.examples.masking_advice import masking_advice
    source = (
        sources.from_corpora(run, _VOCAB_FILE.value, _TOKENIZER.value, _DO_LOWER_CASE.value)
        if run is not None
        else sources.from_run(_WORKDIR.value)
    )
    for line in masking_advice(list(source.shards.values()), source.run.masking):
        print(line, file=sys.stderr)
    if position is not None:
        position = sources.checked_position(source, position)
    statistics = show_and_count(source, position)
    if _OUTPUT_DIR.value:
        write_statistics(statistics, source.run, _OUTPUT_DIR.value)


def _checked_run() -> PretrainingConfig | None:
    """Returns the PretrainingConfig of the flags, or None with --workdir, whose run has its own."""
    wanted = _wanted()
    if bool(_WORKDIR.value) == bool(wanted.get("corpus_dir")):
        raise UserError(
            "--workdir and --corpus_dir were both given; give one of them"
            if _WORKDIR.value
            else "no data were named; give --workdir=RUN, or --corpus_dir=DIR (what prepare_corpus wrote) and "
            "--vocab_file=FILE"
        )
    if not _WORKDIR.value:
        app.required("vocab_file")
        run = PretrainingConfig(**wanted)
        config_flags.check_casing_flag(_TOKENIZER.value)
        pieces = load_vocabulary(_VOCAB_FILE.value)
        vocabulary_checks.verify(pieces, _TOKENIZER.value, _DO_LOWER_CASE.value, _VOCAB_FILE.value)
        for flag, path in (("corpus_dir", ",".join(run.corpus_dir)), ("lexicon_file", run.lexicon_file)):
            missing = [part for part in path.split(",") if part and not storage.exists(part)]
            if missing:
                raise UserError(f"--{flag}={missing[0]}: does not exist; give a path that can be read")
        if len(set(run.corpus_dir)) < len(run.corpus_dir):
            raise UserError(f"--corpus_dir={','.join(run.corpus_dir)}: names a directory twice; name each once")
        return run
    existing = ExistingRun.read(_WORKDIR.value)
    if not existing.is_started:
        raise UserError(f"--workdir={_WORKDIR.value}: holds no run (no config.json); give the --workdir of pretrain")
    if existing.values.get(PretrainingConfig.KEY, {}).get("language_model", "masked") != "masked":
        raise UserError(
            f"--workdir={_WORKDIR.value}: is a causal language model, which has no pairs and masks to show; give a run "
            "of a BERT"
        )
    advice = "leave that flag out, or give --corpus_dir and --vocab_file instead of --workdir"
    for name in ("vocab_file", "tokenizer", "do_lower_case"):
        if flags.FLAGS[name].present:
            raise UserError(f"--{name} does not go with --workdir, whose run has its own; {advice}")
    _, run = existing.config()
    for name in run.contradictions(wanted):
        raise UserError(
            f"--workdir={_WORKDIR.value} holds a run with {name}={getattr(run, name)}, but "
            f"--{name}={wanted[name]} was given; {advice}"
        )
    return None


def _checked_position() -> tuple[int, ...] | None:
    if _POSITION.value is None:
        return None
    if _STEP.value is not None:
        raise UserError("--step and --position were both given; give one of them")
    try:
        return tuple(int(number) for number in _POSITION.value)
    except ValueError:
        raise UserError(f"--position={','.join(_POSITION.value)}: expected whole numbers, epoch,block,offset") from None


def show_and_count(source: Any, position: tuple[int, ...] | None) -> dict | None:
    """Prints the first --num examples, then the statistics of --statistics_batches batches.

    Args:
        source: inspection.source.Source.
        position: tuple of int. The position of the first example; None to begin after --step.

    Returns:
        dict: the statistics, or None with --statistics_batches=0.
    """
    from keras_bert_app.inspection import inspection_report, reading, statistics

    run, step = source.run, _STEP.value or 0
    look = reading.Look(
        screen.wants_color(_COLOR.value, sys.stdout), screen.columns(), is_unicode=screen.can_write("→", sys.stdout)
    )
    start, stream = _stream(source, step, position)
    counter = statistics.Counter(source.tokenizer, run, source.shards, start)
    progress = Progress("batches counted", _STATISTICS_BATCHES.value, _STATISTICS_BATCHES.value, sys.stderr)
    if _NUM.value:
        print(reading.legend(look), flush=True)
    shown = 0
    for number in itertools.count(1):
        if shown >= _NUM.value and number > _STATISTICS_BATCHES.value:
            break
        batch, after = next(stream)
        rows = len(batch["input_mask"])  # with a batch ramp the number of rows differs from step to step
        for row in range(min(_NUM.value - shown, rows)):
            shown += 1
            progress.line.clear()
            place = f"batch {number}" if position is not None else f"step {step + number}"
            lines = reading.example_lines(
                batch, row, source.tokenizer, run.sentence_objective, f"{place}, row {row + 1} of {rows}", look
            )
            print("", *lines, sep="\n", flush=True)
        if number <= _STATISTICS_BATCHES.value:
            counter.add(batch, after)
            progress.done(1, 1)
    progress.end()
    if not _STATISTICS_BATCHES.value:
        return None
    counted = counter.result()
    print(*([""] if shown else []), *inspection_report.report_lines(counted, look.width), sep="\n", flush=True)
    return counted


def _stream(source: Any, step: int, position: tuple[int, ...] | None) -> tuple[tuple, Iterator]:
    """Returns (position, iterator of the batches from there).

    The function makes and drops the batches between the last checkpoint and `step`.
    """
    from keras_bert_app.inspection import source as sources

    if position is not None:
        after_ramps = max(source.run.batch_ramp_steps, source.run.length_ramp_steps, source.run.num_train_steps)
        steps = [known for known, saved in source.checkpoints.items() if saved == position]
        return position, sources.batches(source, position, *(steps or [after_ramps])[:1])
    known_step, position = sources.nearest_start(source, step)
    stream = sources.batches(source, position, known_step)
    num_dropped = step - known_step
    progress = Progress("batches passed", num_dropped, num_dropped, sys.stderr)
    for _, after in itertools.islice(stream, num_dropped):
        position = after
        progress.done(1, 1)
    progress.end()
    return position, stream


def write_statistics(statistics: dict, run: PretrainingConfig, output_dir: str) -> None:
    """Writes statistics.json and statistics.png into a directory.

    Args:
        statistics: dict. The result of show_and_count.
        run: PretrainingConfig of the run that reads the examples.
        output_dir: str. A local or remote directory.
    """
    from keras_bert_app.drawing.examples_picture import draw_example_statistics

    settings = {field.name: run.to_dict()[field.name] for field in DATA_FIELDS}
    title = _WORKDIR.value or ", ".join(os.path.basename(directory.rstrip("/")) for directory in run.corpus_dir)
    record = {"workdir": _WORKDIR.value, "vocab_file": _VOCAB_FILE.value, "settings": settings, **statistics}
    contents = {
        "statistics.json": (json.dumps(record, ensure_ascii=False, indent=1) + "\n").encode(),
        "statistics.png": draw_example_statistics(statistics, title),
    }
    write_files(output_dir, contents)


if __name__ == "__main__":
    app.run(main, __doc__, is_listing=lambda: not _OUTPUT_DIR.value, writes={"output_dir": ""})
