"""Translates Multi30k with each kind of decoder. All comparisons are on val; chosen rows are scored once on the test.

python -m benchmarks.text_to_text.multi30k --data_dir=MULTI30K --directory=runs/multi30k
python -m benchmarks.text_to_text.multi30k --data_dir=MULTI30K --directory=runs/multi30k --rows=en_de:transformer \\
    --test_rows=en_de:transformer

MULTI30K has train, val and test_2016_flickr in German (.de) and English (.en), compressed or not. A row is
SOURCE_TARGET:KIND. All models have the width 128, one vocabulary of 8,000 pieces with case for both languages, and the
same number of steps. Half of val chooses the weights of a row, and the other half gives its BLEU. The rows that begin
with "warm" start from a BERT of the same shape, which this benchmark first trains on the training captions of both
languages. The rows that begin with "random" have the same model and flags, and random weights. A row that ends in
"quarter" has a quarter of the training pairs.

The table also shows what the same weights reach with a greedy search, and what the last checkpoint and the mean of the
last five checkpoints reach on the half of val that chooses. A second table has the differences between rows that differ
in one flag, as far as --rows names both. Their intervals come from resampled pairs of sentences and seeds.

--test_rows scores rows on test_2016_flickr. Choose them by the table, and score each row once. A row that was stopped
continues. A step of the Transformer takes about 1.1 seconds on two cores with AVX2, so its row takes 1.8 hours;
--steps=2400 is enough to compare rows. Once the vocabulary and the BERT are there, several commands may run different
rows of one directory at the same time.
"""

import json
import os

from absl import flags

from benchmarks.common import own_commands
from benchmarks.common.resumable import results_of
from benchmarks.finetuning.paired_difference import paired_difference
from benchmarks.finetuning.row_runs import measures
from benchmarks.text_to_text.multi30k_rows import CONFIG, KINDS, ROWS, differences, reads_bert
from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError, nearest
from pipelines import storage

_COMMON = {
    "task": "translation",
    "max_seq_length": 64,
    "batch_tokens": 4096,
    "learning_rate": 3e-3,
    "learning_rate_schedule": "inverse_square_root",
    "average_checkpoints": 5,
    "bias_correction": True,
    "seed": 1,
}
_TEST = "test_2016_flickr"

_DATA = flags.DEFINE_string("data_dir", "", "Folder of Multi30k.")
_DIRECTORY = flags.DEFINE_string("directory", "runs/multi30k", "Where vocabulary, BERT, runs and tables go.")
_ROWS = flags.DEFINE_list("rows", ROWS, "Rows to run.")
_TEST_ROWS = flags.DEFINE_list("test_rows", [], "Rows to score on the test set, after they have run.")
_SEEDS = flags.DEFINE_integer("num_seeds", 1, "Seeds of each row.", lower_bound=1)
_STEPS = flags.DEFINE_integer("steps", 6000, "Steps of each row, a multiple of 10.", lower_bound=10)
_BERT_STEPS = flags.DEFINE_integer("bert_steps", 6000, "Steps of the BERT for the warm rows.", lower_bound=1)


def main(arguments):
    del arguments
    (data_dir,) = app.required("data_dir")
    for row in (*_ROWS.value, *_TEST_ROWS.value):
        if row not in ROWS:
            raise UserError(f"--rows, --test_rows: {row!r} is not known: {nearest(row, ROWS)}")
    directory = os.path.abspath(_DIRECTORY.value)
    vocab_file, config_file = write_vocabulary(data_dir, directory)
    given = {row: flags_of(row, data_dir, directory, vocab_file, config_file) for row in ROWS}
    done = results_of(
        _ROWS.value,
        lambda row: run_row(data_dir, directory, row, given[row]),
        os.path.join(directory, "table.json"),
        lambda row: {"finetune": given[row], "bert_steps": _BERT_STEPS.value if reads_bert(row) else 0},
        shown=lambda figures: f"BLEU {figures['bleu']:.2f}",
    )
    print("\n" + "\n".join(table(done)))
    wanted = differences(_ROWS.value)
    found = results_of(
        list(wanted),
        lambda name: difference(directory, *wanted[name]),
        os.path.join(directory, "differences.json"),
        lambda name: {"row": given[wanted[name][0]], "minus": given[wanted[name][1]]},
        shown=lambda figures: f"{figures['difference']:+.2f}",
    )
    print("\n" + "\n".join(difference_table(found)))
    if _TEST_ROWS.value:
        tested = results_of(
            _TEST_ROWS.value,
            lambda row: test_row(data_dir, directory, row),
            os.path.join(directory, "test.json"),
            lambda row: {"finetune": given[row]},
            shown=lambda figures: f"BLEU {figures['bleu']:.2f}",
        )
        print("\n" + "\n".join(test_table(tested)))


def write_vocabulary(data_dir: str, directory: str) -> tuple[str, str]:
    """Learns the vocabulary from the training captions, and writes the configuration.

    Args:
        data_dir: str. Folder of Multi30k.
        directory: str. Folder of the benchmark.

    Returns:
        (path of the vocabulary, path of the configuration).
    """
    storage.make_directories(directory)
    vocab_file, config_file = (os.path.join(directory, name) for name in ("vocab.txt", "config.json"))
    if not storage.exists(config_file) or _read(config_file) != CONFIG:  # another command may be reading it
        storage.write_whole(config_file, json.dumps(CONFIG, indent=1) + "\n")
    if not storage.exists(vocab_file):
        own_commands.run(
            "learn_vocab",
            input_files=os.path.join(data_dir, "train.*"),
            vocab_file=vocab_file,
            vocab_size=CONFIG["vocab_size"],
            do_lower_case=False,
        )
    return vocab_file, config_file


def flags_of(row: str, data_dir: str, directory: str, vocab_file: str, config_file: str) -> dict:
    """The flags of a row's finetune command, without its work directory.

    Args:
        row: str. SOURCE_TARGET:KIND.
        data_dir: str. Folder of Multi30k.
        directory: str. Folder of the benchmark.
        vocab_file: str. Path of the vocabulary.
        config_file: str. Path of the configuration.
    """
    pair, kind = row.split(":")
    source, target = pair.split("_")
    start = {"config": config_file, "vocab_file": vocab_file}
    if reads_bert(row):
        start = {"init_checkpoint": os.path.join(directory, "bert")}
    return {
        **_COMMON,
        "num_train_steps": _STEPS.value,
        "num_warmup_steps": _STEPS.value // 8,
        **dict.fromkeys(("eval_steps", "save_checkpoints_steps"), _STEPS.value // 10),
        **KINDS[kind],
        **start,
        "data_dir": data_dir,
        "source": source,
        "target": target,
        "num_seeds": _SEEDS.value,
    }


def train_bert(data_dir: str, directory: str) -> None:
    """Trains the BERT of the warm rows on the training captions of both languages, or resumes it."""
    own_commands.run(
        "pretrain",
        workdir=os.path.join(directory, "bert"),
        input_files=os.path.join(data_dir, "train.*"),
        input_format="documents",
        vocab_file=os.path.join(directory, "vocab.txt"),
        config=os.path.join(directory, "config.json"),
        sentence_objective="none",
        max_seq_length=48,
        global_batch_size=128,
        # With AdamW at 2e-3 and dropout, 1,500 steps learned only the most frequent piece. These are the settings of
        # the recipe small_budget.
        optimizer="muon",
        learning_rate=3e-3,
        masked_lm_prob=0.25,
        short_seq_prob=0.0,
        position_initializer="sinusoidal",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        holdout_fraction=0.0,  # a caption alone is too short to be held out
        num_train_steps=_BERT_STEPS.value,
        num_warmup_steps=_BERT_STEPS.value // 16,
        save_checkpoints_steps=500,
        seed=1,
    )


def run_row(data_dir: str, directory: str, row: str, given: dict) -> dict:
    """Trains a row and scores its weights with a greedy search too.

    Args:
        data_dir: str. Folder of Multi30k.
        directory: str. Folder of the benchmark.
        row: str. SOURCE_TARGET:KIND.
        given: dict. Flags of finetune.

    Returns:
        dict of figures: bleu, interval, bleu_lowercase, chrf, signature, baseline, greedy, last, average, best, step,
        examples, minutes, tokens_per_second. With several seeds, the figures of the first seed and bleu_of_seeds.
    """
    if reads_bert(row):
        train_bert(data_dir, directory)
    workdir = _workdir(directory, row)
    own_commands.run("finetune", workdir=workdir, **given)
    runs = _runs(workdir)
    figures = [_read(os.path.join(run, "results.json")) for run in runs]
    first, reported = figures[0], figures[0]["reported"]
    greedy_dir = _answers_dir(directory, row, "greedy")
    own_commands.run("evaluate", workdir=runs[0], num_beams=1, output_dir=greedy_dir, overwrite=True)
    speeds = [line["tokens_per_second"] for line in own_commands.metrics_of(runs[0]) if "tokens_per_second" in line]
    return {
        "bleu": reported["score"],
        "interval": reported["interval"],
        **{name: reported["metrics"][name] for name in ("bleu_lowercase", "chrf")},
        "signature": reported["signatures"]["bleu"],
        "baseline": first["baseline"]["score"],
        "greedy": _read(os.path.join(greedy_dir, "scores.json"))["bleu"],
        "last": first["last"]["score"],
        "average": first["average"]["score"],
        "best": first["best"]["score"],
        "step": first["best"]["step"],
        "examples": reported["examples"],
        "minutes": first["train_seconds"] / 60,
        "tokens_per_second": sorted(speeds)[len(speeds) // 2],
        "bleu_of_seeds": [each["reported"]["score"] for each in figures],
    }


def difference(directory: str, row: str, other: str, num_beams: int) -> dict:
    """The difference in BLEU of two rows on the half of val that did not choose the weights.

    Args:
        directory: str. Folder of the benchmark.
        row: str. A row that has run.
        other: str. The row that is subtracted.
        num_beams: int. Beams for the other row; 0 for its own number.

    Returns:
        dict. See paired_difference.
    """
    ours, sources = measures(_workdir(directory, row))
    theirs, _ = measures(_workdir(directory, other), **({"num_beams": num_beams} if num_beams else {}))
    return paired_difference(ours, theirs, sources)


def test_row(data_dir: str, directory: str, row: str) -> dict:
    """Scores a row on the test set.

    Args:
        data_dir: str. Folder of Multi30k.
        directory: str. Folder of the benchmark.
        row: str. SOURCE_TARGET:KIND.

    Returns:
        dict. The content of scores.json.
    """
    source = row[:2]
    name = next(name for name in storage.list_directory(data_dir) if name.startswith(f"{_TEST}.{source}"))
    (run, *_), output_dir = _runs(_workdir(directory, row)), _answers_dir(directory, row, "test")
    own_commands.run(
        "evaluate", workdir=run, input_file=os.path.join(data_dir, name), output_dir=output_dir, overwrite=True
    )
    return _read(os.path.join(output_dir, "scores.json"))


def table(done: dict):
    """Yields the table of results in Markdown, a line for each row.

    Args:
        done: dict. Row -> figures.
    """
    yield (
        "| row | BLEU | 95 % interval | lower case | chrF | greedy | on the other half: last, mean of 5, best | "
        "minutes |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for row, figures in done.items():
        seeds = figures["bleu_of_seeds"]
        others = f" (seeds: {', '.join(f'{bleu:.1f}' for bleu in seeds)})" if len(seeds) > 1 else ""
        low, high = figures["interval"]
        yield (
            f"| {row} | {figures['bleu']:.1f}{others} | {low:.1f} to {high:.1f} | {figures['bleu_lowercase']:.1f} | "
            f"{figures['chrf']:.1f} | {figures['greedy']:.1f} | {figures['last']:.1f}, {figures['average']:.1f}, "
            f"{figures['best']:.1f} | {figures['minutes']:.0f} |"
        )


def difference_table(found: dict):
    """Yields the table of differences in Markdown, a line for each.

    Args:
        found: dict. Name of the difference -> result of paired_difference.
    """
    yield "| difference | BLEU | 95 % interval |"
    yield "|---|---|---|"
    for name, figures in found.items():
        low, high = figures["interval"]
        yield f"| {name} | {figures['difference']:+.1f} | {low:+.1f} to {high:+.1f} |"


def test_table(tested: dict):
    """Yields the table of the test set in Markdown, a line for each row.

    Args:
        tested: dict. Row -> content of scores.json.
    """
    yield f"| row, on {_TEST} | BLEU | 95 % interval | lower case | chrF |"
    yield "|---|---|---|---|---|"
    for row, scores in tested.items():
        low, high = scores["bleu_interval"]
        yield (
            f"| {row} | {scores['bleu']:.1f} | {low:.1f} to {high:.1f} | {scores['bleu_lowercase']:.1f} | "
            f"{scores['chrf']:.1f} |"
        )


def _workdir(directory, row):
    return os.path.join(directory, "runs", row.replace(":", "_"))


def _answers_dir(directory, row, name):
    return os.path.join(directory, "answers", row.replace(":", "_"), name)


def _runs(workdir):
    """The directories of a row's seeds, the first seed first."""
    seeds = [name for name in storage.list_directory(workdir) if name.startswith("seed-")]
    return [os.path.join(workdir, name) for name in sorted(seeds)] or [workdir]


def _read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


if __name__ == "__main__":
    app.run(main, __doc__)
