"""Tasks over the words of sentences: a tag for each. The functions are those of tasks.sequences.

What is predicted at a word's first piece is the word's tag (Devlin et al. 2018, section 5.3). Tags of entities are
trained as IOB2, whatever scheme a file has, and come back in the file's own.
"""

import collections
import itertools

import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.modeling.task_model import TOKENS, Head
from keras_bert_app.tasks import objectives
from keras_bert_app.tasks.families import entities, tagging_rows
from keras_bert_app.tasks.readers import conll

READS = ("doc_stride", "document_context", "text_columns", "label_column")
ENTITY_F1 = "entity_f1"  # of the metrics of tasks whose tags are those of entities


def has_entities(task):
    return ENTITY_F1 in task.metrics


def _as_trained(task, tags):
    """Tags as the model knows them: those of entities in IOB2."""
    return entities.write_tags(entities.spans(tags), len(tags), "IOB2") if has_entities(task) else tags


def label_names(task, examples, run):
    """The tags in the order of the outputs; the first one is that of words of which nothing is known.

    Of entities that is O, then B- and I- of each type. Other tags stand by how often they come, the most frequent one
    first.

    Raises:
        UserError: all words have the same tag.
    """
    tags = collections.Counter(itertools.chain.from_iterable(example.tags for example in examples))
    if len(tags) < 2 and (not has_entities(task) or "O" in tags):
        raise UserError(
            f"{examples[0].path}: {sum(tags.values()):,} training words with the one tag {min(tags)!r}; a task needs tags to "
            "tell apart; --label_column is their column"
        )
    if not has_entities(task):
        return tuple(sorted(tags, key=lambda tag: (-tags[tag], tag)))
    kinds = sorted({tag.partition("-")[2] for tag in tags if tag != "O"})
    return ("O", *(f"{letter}-{kind}" if kind else letter for kind in kinds for letter in "BI"))


def input_names(examples):
    """Names of what an export takes of an example."""
    return ["text"]


def featurize(task, examples, tokenizer, run, labels, has_labels=True):
    """Features of sentences; for_decode has words, int32 [T]: the number of the word that is tagged at a token, or -1.

    Raises:
        UserError: a tag that is none of the labels; file:line.
    """
    features = tagging_rows.make_rows(examples, tokenizer, run)
    words = features.for_decode["words"]
    num_words = sum(len(example.words) for example in examples)
    without = np.setdiff1d(np.arange(num_words), words)
    if len(without):
        place = next(
            itertools.islice(
                (f"{example.path}:{line}" for example in examples for line in example.lines), without[0], None
            )
        )
        features.notes.append(
            f"{len(without):,} of {num_words:,} words come to no piece and are tagged {labels[0]}, the first {place}"
        )
    if has_labels:
        values = _label_values(task, examples, labels)
        features.token_labels["token_labels"] = np.where(words >= 0, values[words], -1).astype(np.int32)
    return features


def _label_values(task, examples, labels):
    """int32 [W]: the label of each word."""
    index, values = {label: number for number, label in enumerate(labels)}, []
    for example in examples:
        found = [index.get(tag, -1) for tag in _as_trained(task, example.tags)]
        if -1 in found:
            at = found.index(-1)
            some = f"{', '.join(labels[:8])}{' and others' if len(labels) > 8 else ''}"
            raise UserError(
                f"{example.path}:{example.lines[at]}: tag {example.tags[at]!r} is none of the training data's: {some}"
            )
        values += found
    return np.array(values, np.int32)


def texts(examples):
    """All texts, for masked LM on them."""
    return [" ".join(example.words) for example in examples]


def make_head(task, run, labels):
    """The Head of a run."""
    return Head(TOKENS, len(labels), run.layers, bilstm_units=run.bilstm_units, dropout=run.classifier_dropout)


def make_objective(task, run, head):
    """What is minimized."""
    return objectives.Tagging(consistency_weight=run.consistency_weight)


def decode(task, examples, features, logits, run, labels):
    """Predictions from logits: of each word the most probable tag; entities are what conlleval reads in these.

    Args:
        logits: list of U arrays float32 [row length, n].

    Returns:
        list of dicts, one for each example: tags, in the scheme of its file, and the probability that the model gave to
        the tag of each word (None for words without pieces).
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
    """Predictions from the trained tags of all words, one after the other."""
    found, at = [], 0
    for example in examples:
        end = at + len(example.words)
        own = tags[at:end]
        if has_entities(task):
            own = entities.write_tags(entities.spans(own), len(own), example.scheme)
        found.append({"tags": own, "probabilities": shares[at:end]})
        at = end
    return found


def score(task, examples, predictions, labels):
    """dict metric -> figure. Entities are counted as conlleval counts them, sentence by sentence.

    The accuracy over words is conlleval's too, but for two things: -DOCSTART- is no word, and where a file's tags break
    their scheme, what counts is the entities that they tell of.
    """
    right, found = [example.tags for example in examples], [one["tags"] for one in predictions]
    figures = {}
    if has_entities(task):
        precision, recall, f1 = entities.precision_recall_f1(entities.count(right, found))
        figures = {ENTITY_F1: f1, "precision": precision, "recall": recall}
        right = [
            entities.write_tags(entities.spans(tags), len(tags), example.scheme)
            for tags, example in zip(right, examples)
        ]
    hits = [tag == answer for pair in zip(right, found) for tag, answer in zip(*pair, strict=True)]
    figures["accuracy"] = sum(hits) / len(hits)
    return {name: figures[name] for name in task.metrics}


def baseline(task, train_examples, examples, labels):
    """(what it does, predictions) of a look-up: the tag that a word mostly has; of other words the first label."""
    tags = collections.defaultdict(collections.Counter)
    for example in train_examples:
        for word, tag in zip(example.words, _as_trained(task, example.tags)):
            tags[word][tag] += 1
    order = {label: number for number, label in enumerate(labels)}
    best = {word: max(counts.items(), key=lambda item: (item[1], -order[item[0]])) for word, counts in tags.items()}
    known = [best.get(word, (labels[0], 0)) for example in examples for word in example.words]
    shares = [
        count / sum(tags[word].values()) if count else None
        for (_, count), word in zip(known, itertools.chain.from_iterable(example.words for example in examples))
    ]
    return (
        "the most frequent tag of each word in the training data",
        _predictions(task, examples, [tag for tag, _ in known], shares),
    )


def answers(task, examples, predictions, labels):
    """(right tags, predicted tags, names) of all words, by index."""
    index = {label: number for number, label in enumerate(labels)}
    right = [index[tag] for example in examples for tag in _as_trained(task, example.tags)]
    return right, [index[tag] for one in predictions for tag in _as_trained(task, one["tags"])], labels


def write_predictions(task, directory, examples, predictions):
    """Writes the file's lines with the predicted tags; conll.write_tagged says how."""
    for path, pairs in itertools.groupby(zip(examples, predictions), key=lambda pair: pair[0].path):
        pairs = list(pairs)
        conll.write_tagged(directory, path, (tag for _, one in pairs for tag in one["tags"]), pairs[0][0].tag_column)


def mistakes(task, examples, predictions, most):
    """The sentences with the wrong tags of which the model is most sure, as dicts; wrong words stand in brackets."""
    found = []
    for example, one in zip(examples, predictions):
        pairs = zip(_as_trained(task, example.tags), _as_trained(task, one["tags"]))
        wrong = [at for at, (right, answer) in enumerate(pairs) if right != answer]
        if wrong:
            worst = max(wrong, key=lambda at: one["probabilities"][at] or 0.0)
            found.append((one["probabilities"][worst] or 0.0, worst, set(wrong), example, one["tags"]))
    found.sort(key=lambda entry: -entry[0])
    return [
        {
            "place": f"{example.path}:{example.lines[at]}",
            "sure": round(sure, 4),
            "word": example.words[at],
            "predicted": tags[at],
            "right": example.tags[at],
            "text": " ".join(f"[{word}]" if number in wrong else word for number, word in enumerate(example.words)),
        }
        for sure, at, wrong, example, tags in found[:most]
    ]
