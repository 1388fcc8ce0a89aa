"""Shows what attention is for: decoders copy or reverse digits, scored by the length of the input.

python -m benchmarks.text_to_text.copied_digits --directory=runs/digits
python -m benchmarks.text_to_text.copied_digits --directory=DIR --rows=copy:rnn_state:none,copy:rnn_feedback:dot

A row is TASK:DECODER:ATTENTION. The inputs are 1 to 20 random digits. A decoder without attention reads one vector,
whatever the length of the input. All rows have the same data, seed, sizes and number of steps. The score is the share
of 100 inputs of each length, drawn anew, that are right as a whole. Wilson's 95 % interval of such a share has a
half-width of at most 0.10. DIRECTORY/digits.png has the curves, and DIRECTORY/attention.png what the rows with
attention look at. A row that was stopped continues.
"""

import os

import numpy as np
from absl import flags

from benchmarks.common import own_commands
from benchmarks.common.resumable import results_of
from keras_bert_app.cli.common import app
from keras_bert_app.drawing.alignments import draw_alignments
from keras_bert_app.errors import UserError, nearest
from pipelines import storage

LENGTHS = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 18, 20)
_KINDS = ("rnn_state:none", "rnn_context:none", "rnn_feedback:none", "rnn_context:additive", "rnn_feedback:additive")
ROWS = [f"{task}:{kind}" for task in ("copy", "reverse") for kind in (*_KINDS, "rnn_feedback:dot", "transformer:none")]
_MOST, _INPUTS_OF_A_LENGTH, _SHOWN_DIGITS = 20, 100, "3 1 4 1 5 9 2 6 5 3 5 8"
# The vocabulary of the digits: the special pieces, then 0 to 9.
_VOCABULARY = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n" + "".join(f"{digit}\n" for digit in range(10))
_CONFIG = (
    '{"vocab_size": 15, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128, '
    '"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "max_position_embeddings": 32, '
    '"initializer_range": 0.1, "do_lower_case": false}\n'
)
_DIRECTORY = flags.DEFINE_string("directory", "runs/digits", "Where data, runs and pictures go.")
_ROWS = flags.DEFINE_list("rows", ROWS, "Rows to run.")
_STEPS = flags.DEFINE_integer("steps", 1000, "Steps of each row, of 64 examples each.", lower_bound=1)


def main(arguments):
    del arguments
    for row in _ROWS.value:
        if row not in ROWS:
            raise UserError(f"--rows: {row!r} is not known: {nearest(row, ROWS)}")
    directory = os.path.abspath(_DIRECTORY.value)
    for task in ("copy", "reverse"):
        write_data(os.path.join(directory, task), is_reversed=task == "reverse")
    done = results_of(
        _ROWS.value,
        lambda row: scores_of(directory, row),
        os.path.join(directory, "table.json"),
        {"steps": _STEPS.value},
        shown=lambda scores: "  ".join(f"{length}: {share:.2f}" for length, share in scores.items()),
    )
    print("\n" + "\n".join(table(done)))
    storage.write_whole(os.path.join(directory, "digits.png"), draw_scores(done))
    attending = [row for row in done if not row.endswith("none") or "transformer" in row]
    if attending:
        maps = [attention_of(directory, row) for row in attending]
        picture = draw_alignments(maps, "Attention of each output (down) to the input (across)", attending)
        storage.write_whole(os.path.join(directory, "attention.png"), picture)


def write_data(directory: str, is_reversed: bool) -> None:
    """Writes the files of a task: train, val, the vocabulary and the configuration.

    Args:
        directory: str. The directory of the task.
        is_reversed: bool. Whether the targets are the inputs backwards.
    """
    generator = np.random.default_rng(20261127)
    for name, count in (("train", 20_000), ("val", 400)):
        inputs = [digits(generator, generator.integers(1, _MOST + 1)) for _ in range(count)]
        for ending, texts in (("in", inputs), ("out", [target_of(text, is_reversed) for text in inputs])):
            storage.make_directories(directory)
            storage.write_whole(os.path.join(directory, f"{name}.{ending}"), "".join(f"{text}\n" for text in texts))
    storage.write_whole(os.path.join(directory, "vocab.txt"), _VOCABULARY)
    storage.write_whole(os.path.join(directory, "config.json"), _CONFIG)


def digits(generator: np.random.Generator, length: int) -> str:
    """Random digits with spaces between them.

    Args:
        generator: numpy.random.Generator.
        length: int. The number of digits.
    """
    return " ".join(map(str, generator.integers(0, 10, length)))


def target_of(text: str, is_reversed: bool) -> str:
    """The target of an input: the same digits, or the digits backwards.

    Args:
        text: str. Digits with spaces between them.
        is_reversed: bool. Whether the target is backwards.
    """
    return text[::-1] if is_reversed else text


def scores_of(directory: str, row: str) -> dict:
    """Trains a row, and scores it on new inputs of each length.

    Args:
        directory: str. The directory of data and runs.
        row: str. TASK:DECODER:ATTENTION.

    Returns:
        dict. Length -> share of the inputs that are right as a whole.
    """
    task, decoder, attention = row.split(":")
    workdir, data = workdir_of(directory, row), os.path.join(directory, task)
    recurrent = {} if decoder == "transformer" else {"encoder_layers": 0, "bilstm_units": 32, "attention": attention}
    own_commands.run(
        "finetune",
        task="translation",
        data_dir=data,
        source="in",
        target="out",
        config=os.path.join(data, "config.json"),
        vocab_file=os.path.join(data, "vocab.txt"),
        workdir=workdir,
        decoder=decoder,
        num_train_steps=_STEPS.value,
        global_batch_size=64,
        learning_rate=3e-3,
        max_seq_length=_MOST + 2,
        num_beams=1,
        label_smoothing=0.0,
        eval_steps=_STEPS.value,
        jit_compile="none",
        length_buckets=False,
        **recurrent,
    )
    from keras_bert_app.tasks.families.text_to_text import Example
    from keras_bert_app.tasks.scoring import FinetunedRun

    run, generator, scores = FinetunedRun(workdir), np.random.default_rng(7), {}
    for length in LENGTHS:
        texts = [digits(generator, length) for _ in range(_INPUTS_OF_A_LENGTH)]
        predictions, _ = run.predictions([Example(str(n), text, None, "") for n, text in enumerate(texts)])
        right = [
            prediction["text"].split() == target_of(text, task == "reverse").split()
            for prediction, text in zip(predictions, texts, strict=True)
        ]
        scores[str(length)] = sum(right) / len(right)
    return scores


def workdir_of(directory: str, row: str) -> str:
    """The work directory of a row.

    Args:
        directory: str. The directory of data and runs.
        row: str. TASK:DECODER:ATTENTION.
    """
    return os.path.join(directory, "runs", row.replace(":", "_"))


def attention_of(directory: str, row: str) -> tuple[list[str], list[str], np.ndarray]:
    """The attention of the last layer, mean over heads, for one input.

    Args:
        directory: str. The directory of data and runs.
        row: str. TASK:DECODER:ATTENTION, with attention.

    Returns:
        (digits of the input, digits of the target, float32 [target, source]).
    """
    from keras_bert_app.tasks.scoring import FinetunedRun

    run = FinetunedRun(workdir_of(directory, row))
    texts = _SHOWN_DIGITS, target_of(_SHOWN_DIGITS, row.startswith("reverse"))
    length = len(_SHOWN_DIGITS.split()) + 2
    source, target = (run.tokenizer.pack([text], seq_length=length) for text in texts)
    attention = run.model.alignments(source, target["input_word_ids"][:, 1:])
    # Without [CLS] and [SEP] of the source, and without the end of the target.
    return texts[0].split(), texts[1].split(), attention[0, :-1, 1:-1].numpy()


def table(done: dict):
    """Yields a table in Markdown: a line for each row, a column for each length.

    Args:
        done: dict. Row -> result of scores_of.
    """
    yield f"| row | {' | '.join(map(str, LENGTHS))} |"
    yield "|---" * (len(LENGTHS) + 1) + "|"
    for row, scores in done.items():
        yield f"| `{row}` | {' | '.join(f'{scores[str(length)]:.2f}' for length in LENGTHS)} |"


def draw_scores(done: dict) -> bytes:
    """Draws the share of right outputs by length, a panel for each task. Returns the content of a PNG file.

    Args:
        done: dict. Row -> result of scores_of.
    """
    from keras_bert_app.drawing.figures import picture

    tasks = sorted({row.partition(":")[0] for row in done})
    title = f"Share of inputs that are right as a whole, {_STEPS.value:,} steps"
    with picture(5.2 * len(tasks), 3.8, title) as (figure, image):
        for axis, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
            for row, scores in done.items():
                name, _, kind = row.partition(":")
                if name == task:
                    dashes = "-" if "transformer" in kind or not kind.endswith("none") else "--"
                    axis.plot(LENGTHS, [scores[str(length)] for length in LENGTHS], dashes, marker="o", label=kind)
            axis.set_title(task)
            axis.set_xlabel("digits")
            axis.set_xticks(LENGTHS)
            axis.set_ylim(-0.03, 1.03)
            axis.legend(frameon=False, fontsize=7)
    return image.getvalue()


if __name__ == "__main__":
    app.run(main, __doc__)
