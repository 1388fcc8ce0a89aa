"""The tasks of GLUE (Wang et al. 2018) and SNLI in their official files.

GLUE's TSV files have no quoting. CoLA's files have no header, except for the test file. The labels have the order of
the processors in google-research/bert run_classifier.py.
"""

from collections.abc import Callable

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks.families import sequences
from keras_bert_app.tasks.families.sequences import CLASSIFICATION, REGRESSION, Example
from keras_bert_app.tasks.readers.tables import label_of, read_rows, text_of
from keras_bert_app.tasks.task import Examples, Task

NLI = ("contradiction", "entailment", "neutral")
_ENTAILS = ("entailment", "not_entailment")
# "-" means that the annotators did not agree. GLUE's diagnostic file has rows with an empty label.
_NO_LABEL = ("-", "")
_COLA_COLUMNS = ("source", "label", "star", "sentence")
_FILES = {"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ("test.tsv",)}
_STS_RANGE = (0.0, 5.0)
# Names of the columns with the first sentence, the second sentence and the label. GLUE's MNLI, SNLI and XNLI use
# the first name, XNLI's training files the second name, and GLUE's diagnostic file the third name.
_NLI_COLUMNS = (
    ("sentence1", "premise", "Premise"),
    ("sentence2", "hypo", "Hypothesis"),
    ("gold_label", "label", "Label"),
)


def _reader(text_a, text_b=None, label="label", kind=CLASSIFICATION, columns=None, leaves_out_ragged=False):
    """A function (path, run, has_labels) that reads files with these columns.

    Args:
        text_a: str. Column of the first text.
        text_b: str. Column of the second text; None for single texts.
        label: str. Column of the label.
        kind: str. CLASSIFICATION or REGRESSION.
        columns: Names of the columns of files without header.
        leaves_out_ragged: bool. Whether labelled rows with a wrong number of fields are left out.
    """

    def read(path, run, has_labels):
        ragged, examples = [] if leaves_out_ragged and has_labels else None, []
        for number, row in read_rows(path, columns, ragged):
            value = None
            if has_labels:
                value = label_of(path, number, row, label)
                if kind == REGRESSION:
                    value = _score(path, number, value)
            examples.append(
                Example(
                    guid_of(row, len(examples)),
                    text_of(path, number, row, text_a),
                    text_of(path, number, row, text_b) if text_b else None,
                    value,
                    f"{path}:{number}",
                )
            )
        what = f"rows with more or fewer fields than columns (the first: line {ragged[0]})" if ragged else ""
        return Examples(examples, {what: len(ragged)} if ragged else {})

    return read


def read_nli(
    path: str, run: FinetuningConfig, has_labels: bool, group_of: Callable[[dict], str] = lambda row: ""
) -> Examples:
    """Examples of natural language inference, without the rows that have no gold label.

    Args:
        path: str. The file.
        run: FinetuningConfig. The function does not read it.
        has_labels: bool. Whether the file must have labels.
        group_of: Function row -> group of its example.
    """
    examples, columns, without_label = [], None, 0
    for count, (number, row) in enumerate(read_rows(path)):
        columns = columns or [next((name for name in names if name in row), names[0]) for names in _NLI_COLUMNS]
        value = None
        if has_labels:
            label_of(path, number, row, columns[2])
            value = text_of(path, number, row, columns[2])
            # Only XNLI's training files write "contradictory".
            value = "contradiction" if value == "contradictory" else value
        if value in _NO_LABEL:
            without_label += 1
            continue
        examples.append(
            Example(
                guid_of(row, count),
                text_of(path, number, row, columns[0]),
                text_of(path, number, row, columns[1]),
                value,
                f"{path}:{number}",
                group_of(row),
            )
        )
    return Examples(examples, {"rows without a gold label": without_label} if without_label else {})


def guid_of(row: dict, number: int) -> str:
    """The name of a row in predictions: its index or id, or else its number in the file, from 0."""
    names = (row.get(column) for column in ("index", "id"))
    return next((str(name) for name in names if name not in (None, "")), str(number))


def _score(path, number, value):
    low, high = _STS_RANGE
    try:
        score = float(value)
    except ValueError:
        score = float("nan")
    if not low <= score <= high:
        raise UserError(f"{path}:{number}: score {value!r}; expected a number from {low:g} to {high:g}")
    return score


def _glue(
    name,
    summary,
    read,
    metrics=("accuracy",),
    labels=(),
    kind=CLASSIFICATION,
    files=None,
    answer_files=None,
    is_ordered=False,
):
    # GLUE's server expects files named after the task, such as "SST-2.tsv".
    return Task(
        name,
        summary,
        sequences,
        kind,
        read,
        files or _FILES,
        metrics,
        labels,
        answer_files=answer_files or {"test.tsv": f"{summary.partition(':')[0]}.tsv"},
        value_range=_STS_RANGE if kind == REGRESSION else (),
        is_ordered=is_ordered,
    )


TASKS = (
    _glue(
        "cola",
        "CoLA: is an English sentence acceptable",
        _reader("sentence", columns=_COLA_COLUMNS),
        ("matthews_correlation", "accuracy"),
        ("0", "1"),
    ),
    _glue("sst-2", "SST-2: is a phrase of a film review positive", _reader("sentence"), labels=("0", "1")),
    _glue(
        "mrpc",
        "MRPC: do two sentences say the same",
        _reader("#1 String", "#2 String", "Quality"),
        ("accuracy", "f1"),
        ("0", "1"),
    ),
    # A few questions in the official training file contain a line break, which divides each of them into two rows.
    _glue(
        "qqp",
        "QQP: do two questions ask the same",
        _reader("question1", "question2", "is_duplicate", leaves_out_ragged=True),
        ("accuracy", "f1"),
        ("0", "1"),
    ),
    _glue(
        "sts-b",
        "STS-B: how alike two sentences are, 0 to 5",
        _reader("sentence1", "sentence2", "score", REGRESSION),
        ("spearman", "pearson"),
        kind=REGRESSION,
    ),
    _glue(
        "mnli",
        "MNLI: does one sentence follow from the other; also scored on the mismatched sentences and on the diagnostic "
        "sentences (AX)",
        read_nli,
        ("accuracy", "matthews_correlation"),
        NLI,
        files={
            "train": ("train.tsv", "multinli_1.0_train.jsonl"),
            "dev": ("dev_matched.tsv", "multinli_1.0_dev_matched.jsonl"),
            "test": ("test_matched.tsv",),
            "dev_mismatched": ("dev_mismatched.tsv", "multinli_1.0_dev_mismatched.jsonl"),
            "test_mismatched": ("test_mismatched.tsv",),
            "dev_ax": ("diagnostic-full.tsv",),
            "test_ax": ("diagnostic.tsv", "AX.tsv"),
        },
        answer_files={
            "test_matched.tsv": "MNLI-m.tsv",
            "test_mismatched.tsv": "MNLI-mm.tsv",
            "diagnostic.tsv": "AX.tsv",
            "AX.tsv": "AX.tsv",
        },
        is_ordered=True,
    ),
    _glue(
        "snli",
        "SNLI: does one sentence follow from the caption of a picture",
        read_nli,
        labels=NLI,
        files={"train": ("snli_1.0_train.jsonl",), "dev": ("snli_1.0_dev.jsonl",), "test": ("snli_1.0_test.jsonl",)},
        is_ordered=True,
    ),
    _glue(
        "qnli",
        "QNLI: does a sentence answer a question",
        _reader("question", "sentence"),
        labels=_ENTAILS,
        is_ordered=True,
    ),
    _glue(
        "rte",
        "RTE: does one sentence follow from the other",
        _reader("sentence1", "sentence2"),
        labels=_ENTAILS,
        is_ordered=True,
    ),
    _glue(
        "wnli",
        "WNLI: does a sentence follow in which a noun replaces the pronoun",
        _reader("sentence1", "sentence2"),
        labels=("0", "1"),
        is_ordered=True,
    ),
)
