"""The family of tagging: a tag for each word of a sentence.

The prediction at the first piece of a word is the tag of the word (Devlin et al. 2018, section 5.3). The model always
learns entities in IOB2, even if the file has another scheme. Predictions have the scheme of the file.
"""

import collections
import itertools
import os
from collections.abc import Sequence

import numpy as np

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.task_head import TOKENS, Head
from keras_bert_app.tasks import intervals, metrics, objectives, predicting, sampling
from keras_bert_app.tasks.families import entities, tagging_rows
from keras_bert_app.tasks.features import Features
from keras_bert_app.tasks.readers import conll
from keras_bert_app.tasks.task import HEAD_FIELDS, Task, head_options

READS = (*HEAD_FIELDS, "tag_layer", "doc_stride", "document_context", "text_columns", "label_column")
_FEWEST_DOCUMENTS = 20  # with fewer documents, single sentences are held out
ENTITY_F1 = "entity_f1"  # a metric only of tasks whose tags mark entities

# The answers of the model are logits, and the names of the metrics say all.
make_answers, signatures = predicting.answers_are_logits, metrics.no_signatures
pictures = metrics.no_pictures


def has_entities(task: Task) -> bool:
    """Whether the tags of a task mark entities."""
    return ENTITY_F1 in task.metrics


def _as_trained(task, tags):
    """The tags that the model learns: IOB2 for entities, else the tags of the file."""
    return entities.write_tags(entities.spans(tags), len(tags), "IOB2") if has_entities(task) else tags


def label_names(task: Task, examples: Sequence[conll.Sentence], run: FinetuningConfig) -> tuple[str, ...]:
    """The tags in the order of the outputs.

    For entities, the first tag is O, followed by B- and I- of each type. Other tags are sorted by frequency, the most
    frequent tag first. Words without a word piece get the first tag. So do words that the baseline does not know.

    Raises:
        UserError: all words have the same tag. For tasks with entities, this is an error only if the tag is O.
    """
    tags = collections.Counter(itertools.chain.from_iterable(example.tags for example in examples))
    if len(tags) < 2 and (not has_entities(task) or "O" in tags):
        raise UserError(
            f"{examples[0].path}: all {sum(tags.values()):,} training words have the tag {min(tags)!r}; a task needs "
            "at least two tags; --label_column gives the column of the tags"
        )
    if not has_entities(task):
        return tuple(sorted(tags, key=lambda tag: (-tags[tag], tag)))
    kinds = sorted({tag.partition("-")[2] for tag in tags if tag != "O"})
    return ("O", *(f"{letter}-{kind}" if kind else letter for kind in kinds for letter in "BI"))


def classes(task: Task, example: conll.Sentence) -> tuple[str, ...]:
    """The types of the entities of a sentence, or all its tags if the tags mark no entities."""
    if not has_entities(task):
        return tuple(sorted(set(example.tags)))
    return tuple(sorted({kind or "entity" for kind, _, _ in entities.spans(example.tags)}))


def sources(examples: Sequence[conll.Sentence]) -> list[tuple]:
    """The document of each sentence, or its words if the files have few documents."""
    documents = [(os.path.basename(example.path), example.document) for example in examples]
    if len(set(documents)) >= _FEWEST_DOCUMENTS:
        return documents
    return [sampling.content(" ".join(example.words)) for example in examples]


def input_names(examples: Sequence[conll.Sentence]) -> list[str]:
    """The names of the inputs of an exported model."""
    return ["text"]


def featurize(
    task: Task,
    examples: Sequence[conll.Sentence],
    tokenizer,
    run: FinetuningConfig,
    labels: tuple[str, ...],
    has_labels: bool = True,
) -> Features:
    """The Features of sentences.

    for_decode["words"], int32 [T], is the number of the word that is tagged at a token, or -1.
    for_decode["continued_words"], int32 [T], is the same number at the word's further pieces in this row, or -1.

    Raises:
        UserError: a tag is not among the labels; the message has file:line.
    """
    features = tagging_rows.make_rows(examples, tokenizer, run)
    words = features.for_decode["words"]
    num_words = sum(len(example.words) for example in examples)
    without_pieces = np.setdiff1d(np.arange(num_words), words)
    if len(without_pieces):
        places = (f"{example.path}:{line}" for example in examples for line in example.lines)
        place = next(itertools.islice(places, without_pieces[0], None))
        features.notes.append(
            f"{len(without_pieces):,} of {num_words:,} words have no word piece and get the tag {labels[0]}, the first "
            f"{place}"
        )
    if has_labels:
        values = _label_values(task, examples, labels)
        token_labels = np.where(words >= 0, values[words], -1).astype(np.int32)
        if run.tag_layer == "crf":
            continued = features.for_decode["continued_words"]
            inner = _labels_of_further_pieces(task, labels)[values[continued]]
            token_labels = np.where(continued >= 0, inner, token_labels).astype(np.int32)
        features.token_labels["token_labels"] = token_labels
    return features


def _labels_of_further_pieces(task, labels):
    """int32 [n]: the label of the pieces after a word's first piece. In an entity it is I- instead of B-.

    A softmax does not learn these pieces. A conditional random field needs a tag at each place of its chain.
    """
    if not has_entities(task):
        return np.arange(len(labels), dtype=np.int32)
    inner = [f"I{label[1:]}" if label[0] == "B" else label for label in labels]
    return np.array([labels.index(label) for label in inner], np.int32)


def _label_values(task, examples, labels):
    """int32 [W]: the label of each word."""
    index, values = {label: number for number, label in enumerate(labels)}, []
    for example in examples:
        values_of_example = [index.get(tag, -1) for tag in _as_trained(task, example.tags)]
        if -1 in values_of_example:
            word = values_of_example.index(-1)
            some = f"{', '.join(labels[:8])}{' and others' if len(labels) > 8 else ''}"
            raise UserError(
                f"{example.path}:{example.lines[word]}: tag {example.tags[word]!r} is not in the training data; its "
                f"tags are {some}"
            )
        values += values_of_example
    return np.array(values, np.int32)


def texts(examples: Sequence[conll.Sentence]) -> list[str]:
    """All texts, for masked LM on them."""
    return [" ".join(example.words) for example in examples]


def make_head(task: Task, run: FinetuningConfig, labels: tuple[str, ...], tokenizer=None) -> Head:
    """The Head of a run."""
    return Head(TOKENS, len(labels), has_crf=run.tag_layer == "crf", **head_options(run))


def make_objective(task: Task, run: FinetuningConfig, head: Head) -> objectives.Tagging | objectives.TagSequences:
    """Cross-entropy over the tags, or over the sequences of tags."""
    if head.has_crf:
        return objectives.TagSequences()
    return objectives.Tagging(consistency_weight=run.consistency_weight)


def decode(
    task: Task,
    examples: Sequence[conll.Sentence],
    features: Features,
    logits: Sequence[np.ndarray],
    run: FinetuningConfig,
    labels: tuple[str, ...],
) -> list[dict]:
    """The predictions from logits: the most probable tag of each word.

    Entities are read as conlleval reads them.

    Args:
        task: Task.
        examples: The sentences.
        features: Features of the sentences.
        logits: list of U arrays float32 [tokens of the row, n].
        run: FinetuningConfig.
        labels: Names of the outputs.

    Returns:
        list of dicts, one for each sentence: tags, in the scheme of its file; probabilities, the softmax of the logits
        at the tag of each word, None for words without pieces. With a conditional random field this compares the best
        sequences through each tag.
    """
    words = features.for_decode["words"]
    places = np.flatnonzero(words >= 0)
    values = np.concatenate(logits)[places].astype(np.float64)
    num_words = sum(len(example.words) for example in examples)
    chosen, shares = np.zeros(num_words, np.int64), np.full(num_words, None)
    chosen[words[places]] = values.argmax(axis=1)
    shares[words[places]] = (1.0 / np.exp(values - values.max(axis=1, keepdims=True)).sum(axis=1)).round(6)
    return _predictions(task, examples, [labels[index] for index in chosen], shares.tolist())


def _predictions(task, examples, tags, shares):
    """The predictions from the trained tags of all words, one after the other."""
    predictions, start = [], 0
    for example in examples:
        end = start + len(example.words)
        own_tags = tags[start:end]
        if has_entities(task):
            own_tags = entities.write_tags(entities.spans(own_tags), len(own_tags), example.scheme)
        predictions.append({"tags": own_tags, "probabilities": shares[start:end]})
        start = end
    return predictions


def score(
    task: Task, examples: Sequence[conll.Sentence], predictions: Sequence[dict], labels: tuple[str, ...]
) -> dict[str, float]:
    """dict metric -> score. Entities are counted as conlleval counts them, sentence by sentence.

    The accuracy over words differs from conlleval's in two points. -DOCSTART- is no word. If the tags of a file break
    their scheme, the function first writes them again from the entities that conlleval reads in them.
    """
    right, predicted = [example.tags for example in examples], [prediction["tags"] for prediction in predictions]
    figures = {}
    if has_entities(task):
        precision, recall, f1 = entities.precision_recall_f1(entities.count(right, predicted))
        figures = {ENTITY_F1: f1, "precision": precision, "recall": recall}
        right = [
            entities.write_tags(entities.spans(tags), len(tags), example.scheme)
            for tags, example in zip(right, examples, strict=True)
        ]
    hits = [tag == answer for pair in zip(right, predicted, strict=True) for tag, answer in zip(*pair, strict=True)]
    figures["accuracy"] = sum(hits) / len(hits)
    return {name: figures[name] for name in task.metrics}


def measure(
    task: Task, examples: Sequence[conll.Sentence], predictions: Sequence[dict], labels: tuple[str, ...]
) -> intervals.Measure:
    """Entity F1, or the accuracy over words, for resamples of sentences."""
    pairs = [(example.tags, prediction["tags"]) for example, prediction in zip(examples, predictions, strict=True)]
    if has_entities(task):
        counts = np.array([entities.totals(entities.count([right], [predicted])) for right, predicted in pairs])
        return lambda indices: entities.f1(*counts[indices].sum(axis=0))
    hits = np.array([sum(tag == answer for tag, answer in zip(*pair, strict=True)) for pair in pairs])
    lengths = np.array([len(right) for right, _ in pairs])
    return lambda indices: hits[indices].sum() / lengths[indices].sum()


def baseline(
    task: Task,
    train_examples: Sequence[conll.Sentence],
    examples: Sequence[conll.Sentence],
    labels: tuple[str, ...],
) -> tuple[str, list[dict]]:
    """(description, predictions) of the baseline: the most frequent tag of each word.

    Words that the training data do not have get the first label.
    """
    tags = collections.defaultdict(collections.Counter)
    for example in train_examples:
        for word, tag in zip(example.words, _as_trained(task, example.tags), strict=True):
            tags[word][tag] += 1
    order = {label: number for number, label in enumerate(labels)}
    best = {word: max(counts.items(), key=lambda item: (item[1], -order[item[0]])) for word, counts in tags.items()}
    words = [word for example in examples for word in example.words]
    known = [best.get(word, (labels[0], 0)) for word in words]
    shares = [
        count / sum(tags[word].values()) if count else None for (_, count), word in zip(known, words, strict=True)
    ]
    return (
        "the most frequent tag of each word in the training data",
        _predictions(task, examples, [tag for tag, _ in known], shares),
    )


def answers(
    task: Task, examples: Sequence[conll.Sentence], predictions: Sequence[dict], labels: tuple[str, ...]
) -> tuple[list[int], list[int], tuple[str, ...]]:
    """(index of each word's right tag, index of each word's predicted tag, names) for the picture."""
    index = {label: number for number, label in enumerate(labels)}
    right = [index[tag] for example in examples for tag in _as_trained(task, example.tags)]
    predicted = [index[tag] for prediction in predictions for tag in _as_trained(task, prediction["tags"])]
    return right, predicted, labels


def write_predictions(
    task: Task, directory: str, examples: Sequence[conll.Sentence], predictions: Sequence[dict]
) -> None:
    """Writes the lines of the files with the predicted tags; conll.write_tagged describes the format."""
    all_pairs = zip(examples, predictions, strict=True)
    for path, pairs in itertools.groupby(all_pairs, key=lambda pair: pair[0].path):
        pairs = list(pairs)
        tags = {
            line: tag
            for example, prediction in pairs
            for line, tag in zip(example.lines, prediction["tags"], strict=True)
        }
        conll.write_tagged(directory, path, tags, pairs[0][0].tag_column)


def mistakes(task: Task, examples: Sequence[conll.Sentence], predictions: Sequence[dict], most: int) -> list[dict]:
    """At most `most` sentences with wrong tags as dicts, the highest probability first.

    Brackets mark the wrong words.
    """
    sentences = []
    for example, prediction in zip(examples, predictions, strict=True):
        pairs = zip(_as_trained(task, example.tags), _as_trained(task, prediction["tags"]), strict=True)
        wrong = [word for word, (right, answer) in enumerate(pairs) if right != answer]
        if wrong:
            probabilities = prediction["probabilities"]
            worst = max(wrong, key=lambda word: probabilities[word] or 0.0)
            sentences.append((probabilities[worst] or 0.0, worst, set(wrong), example, prediction["tags"]))
    sentences.sort(key=lambda entry: -entry[0])
    return [
        {
            "place": f"{example.path}:{example.lines[worst]}",
            "sure": round(sure, 4),
            "word": example.words[worst],
            "predicted": tags[worst],
            "right": example.tags[worst],
            "text": " ".join(f"[{word}]" if number in wrong else word for number, word in enumerate(example.words)),
        }
        for sure, worst, wrong, example, tags in sentences[:most]
    ]
