"""What the examples of sentence vectors need to be learned from, and to be scored."""

import collections
from collections.abc import Sequence
from typing import Any

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks.vector_objective import CONTRASTIVE, COSENT, COSINE, SIMCSE, TRIPLET
from pipelines.plurals import counted

_FEWEST_OF_TRIPLETS = 8  # rows of a batch: two groups of one label each


def check_learnable(examples: Sequence[Any], run: FinetuningConfig) -> None:
    """Checks that training examples can have the loss of the run.

    Args:
        examples: text_vectors.Example of the training file, at least one.
        run: FinetuningConfig. Its vector_loss and global_batch_size.

    Raises:
        UserError: they cannot; the message names the file or the flag.
    """
    place = examples[0].place.rpartition(":")[0]
    _check_company(examples, run, place)
    if run.vector_loss == TRIPLET:
        counts = collections.Counter(example.label for example in examples)
        if len(counts) < 2 or max(counts.values()) < 2:
            raise UserError(
                f"{place}: has {counted(len(counts), 'label')}, with at most {counted(max(counts.values()), 'text')} "
                "each; expected two labels, and two texts of one label"
            )
        if run.global_batch_size < _FEWEST_OF_TRIPLETS:
            raise UserError(
                f"--global_batch_size={run.global_batch_size}: a batch would have texts of one label; give "
                f"{_FEWEST_OF_TRIPLETS} or more"
            )
    if run.vector_loss == COSINE:
        beyond = next((example for example in examples if not -1.0 <= example.label <= 1.0), None)
        if beyond:
            raise UserError(
                f"{beyond.place}: score {beyond.label:g}; --vector_loss=cosine expects -1 to 1; divide the scores, or "
                "leave it out (cosent needs their order alone)"
            )


def _check_company(examples, run, place):
    """Checks that a batch of a loss over its examples has several of them.

    Raises:
        UserError: an example would be alone, or all examples have one score.
    """
    if not _needs_others(examples, run):
        return
    if run.global_batch_size < 2:
        raise UserError(
            "--global_batch_size=1: an example alone in its batch has no other one to be compared with; give 2 or more"
        )
    if len(examples) < 2:
        raise UserError(f"{place}: has one example, which has no other one to be compared with; give two or more")
    if run.vector_loss == COSENT and len({example.label for example in examples}) < 2:
        raise UserError(
            f"{place}: all scores are {examples[0].label:g}; expected different ones, because the loss learns their "
            "order; --vector_loss=cosine learns the scores themselves"
        )


def _needs_others(examples, run):
    """Whether an example that is alone in its batch teaches nothing."""
    brings_others = run.mine_negatives or all(len(example.texts) > 2 for example in examples)
    return run.vector_loss in (SIMCSE, COSENT) or run.vector_loss == CONTRASTIVE and not brings_others


def check_not_alone(examples: Sequence[Any], run: FinetuningConfig, num_alone: int) -> None:
    """Checks that not all examples are alone in their batches because of repeated texts.

    Args:
        examples: text_vectors.Example. Those that train.
        run: FinetuningConfig.
        num_alone: int. Batches of an epoch that have one example.

    Raises:
        UserError: all are alone, and the loss compares examples.
    """
    if num_alone == len(examples) and _needs_others(examples, run):
        raise UserError(
            f"{examples[0].place.rpartition(':')[0]}: any two examples have a text in common, and equal texts never "
            "meet in a batch, so each example is alone and teaches nothing; give examples with other texts"
        )


def check_judged(examples: Sequence[Any], run: FinetuningConfig, half: str = "") -> None:
    """Checks that examples have what the score of the run needs.

    Args:
        examples: text_vectors.Example.
        run: FinetuningConfig. Its similarity_metric.
        half: str. The half of dev that the examples are, for messages; "" for all examples of a file.

    Raises:
        UserError: they have not; the message names the first one.
    """
    needs = {
        "spearman": (
            lambda example: len(example.texts) == 2 and isinstance(example.label, float),
            "two texts and a score",
        ),
        "mrr": (lambda example: len(example.texts) > 1, "an anchor and its positive"),
        "nearest_label": (lambda example: isinstance(example.label, str), "a text and a label"),
    }
    fits, what = needs[run.similarity_metric]
    if other := next((example for example in examples if not fits(example)), None):
        raise UserError(
            f"{other.place}: the score {run.similarity_metric} needs {what} in each row; name the columns with "
            "--text_columns and --label_column, or give another file"
        )
    place, advice = examples[0].place, ""
    if half:
        place, advice = f"{place.rpartition(':')[0]}, {half}", "; give more rows, or --test_file"
        if run.max_eval_examples:
            advice += f", or raise --max_eval_examples={run.max_eval_examples}"
    if run.similarity_metric == "spearman" and len({example.label for example in examples}) < 2:
        raise UserError(
            f"{place}: all scores are {examples[0].label:g}; expected different ones, because spearman compares their "
            f"order{advice}"
        )
    if run.similarity_metric == "nearest_label" and len(examples) < 2:
        raise UserError(f"{place}: the nearest other text needs two examples{advice or '; give more'}")


def check_pairs(examples: Sequence[Any]) -> None:
    """Checks that examples without scores have the two texts whose cosine is predicted.

    Args:
        examples: text_vectors.Example.

    Raises:
        UserError: one has not. The message names the first one.
    """
    if other := next((example for example in examples if len(example.texts) != 2), None):
        raise UserError(
            f"{other.place}: expected two texts in each row, whose cosine is predicted; name the columns with "
            "--text_columns, or give another file (`embed` writes the vectors of single texts)"
        )
