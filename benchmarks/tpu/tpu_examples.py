"""Text and labelled examples of random words, for the batches of check_tpu's programs."""

import numpy as np

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.tasks import batch_plans, registry
from keras_bert_app.tasks.families import multiple_choice, question_answering, sequences
from keras_bert_app.tasks.readers import conll
from keras_bert_app.tasks.task import Examples
from pipelines.wordpiece.tokenizer import BertTokenizer
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES

WORDS = (
    "the cat sat on a mat and dogs ran far over green hills while rain fell cold night came birds sang old songs "
    "of rivers stones bread salt"
).split()
_NUM_EXAMPLES = 8
# Name of a head or of a way to train -> (a task that has this head, options of the run).
HEADS = {
    "classification": ("mnli", {}),
    "regression": ("sts-b", {}),
    "multi_label": ("multi_label", {}),
    "tagging": ("ner", {}),
    "question_answering": ("squad2", {"max_query_length": 16}),
    "multiple_choice": ("swag", {}),
    "distillation": ("mnli", {"teacher": "another_run"}),
    "scalar_mix": ("sst-2", {"layers": "scalar_mix", "pooling": "mean"}),
    "last_four": ("sst-2", {"layers": "last_four", "pooling": "concat"}),
    "unfreezing": ("sst-2", {"gradual_unfreezing": 10, "layer_decay": 0.9}),
    "windows": ("sst-2", {"long_documents": "windows", "max_windows": 3}),
    "hierarchical": ("sst-2", {"long_documents": "hierarchical", "max_windows": 3}),
    "bilstm": ("ner", {"bilstm_units": 64}),
}


def tokenizer():
    """A BertTokenizer of WORDS."""
    return BertTokenizer("".join(f"{piece}\n" for piece in (*SPECIAL_PIECES, ".", *WORDS)).encode())


def documents(num_documents: int = 60) -> list[list[str]]:
    """Random documents, which are lists of sentences.

    Args:
        num_documents: int. Number of documents.
    """
    generator = np.random.RandomState(1)
    return [
        [_text(generator, generator.randint(3, 9)) + "." for _ in range(generator.randint(2, 13))]
        for _ in range(num_documents)
    ]


def finetuning(head: str, **options) -> tuple:
    """The task, labels, configuration and data of a run with a head.

    Args:
        head: str. A key of HEADS.
        **options: further fields of FinetuningConfig.

    Returns:
        (task, labels, FinetuningConfig, Features).
    """
    name, fields = HEADS[head]
    run = FinetuningConfig(task=name, data_dir="none", length_buckets=False, strategy="one_device", **fields, **options)
    task = registry.find(name)
    examples = _examples(task, run)
    labels = task.family.label_names(task, examples, run)
    features = task.family.featurize(task, examples, tokenizer(), run, labels)
    if run.teacher:
        features.labels["teacher_logits"] = np.zeros((features.num_units, len(labels)), np.float32)
    return task, labels, run.resolved(batch_plans.num_batches(features, run)), features


def _examples(task, run):
    """Random examples of a task. Long documents have more tokens than a row."""
    generator = np.random.RandomState(2)
    longest = 2 * run.max_seq_length if run.long_documents != "head" else 20

    def text():
        return _text(generator, longest)

    def example(number):
        place = f"made up:{number}"
        if task.family is sequences:
            label = {"regression": 0.5 * number, "multi_label": (("a",), ("a", "b"))[number % 2]}.get(
                task.kind, (task.labels or ("0", "1"))[number % 2]
            )
            second = text() if task.name in ("mnli", "sts-b") else None
            return sequences.Example(str(number), text(), second, label, place)
        if task.family is question_answering:
            context = text()
            return question_answering.Example(str(number), _text(generator, 5), context, (context[:3],), (0, 3), place)
        if task.family is multiple_choice:
            return multiple_choice.Example(str(number), text(), "", tuple(text() for _ in range(4)), number % 4, place)
        return conll.Sentence(
            str(number), "made up", range(4), 0, tuple(WORDS[:4]), ("B-PER", "I-PER", "O", "B-LOC"), 1, "IOB2"
        )

    return Examples([example(number) for number in range(_NUM_EXAMPLES)])


def _text(generator, num_words):
    return " ".join(generator.choice(WORDS, num_words))
