"""The family of tasks whose answers are texts: translation, summaries, corrections.

An encoder reads the text as a row [CLS] text [SEP]. A decoder writes the answer from the encoder's states.
"""

import dataclasses
import hashlib
import os
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.drawing.alignments import draw_alignments
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.text_decoding import DecodingOptions
from keras_bert_app.modeling.text_to_text_model import TRANSFORMER, Decoder
from keras_bert_app.tasks import intervals, objectives, sampling
from keras_bert_app.tasks.batches import make_batch
from keras_bert_app.tasks.families import text_scores
from keras_bert_app.tasks.features import Features, RowBuilder, notes_of_empty, piece_ids
from keras_bert_app.tasks.task import TEXT_TO_TEXT_FIELDS, Examples, Task
from pipelines.wordpiece.detokenizing import texts_of_ids

# Only translation has languages.
READS = ("bilstm_units", *(name for name in TEXT_TO_TEXT_FIELDS if name not in ("source", "target")))
_TEXTS_PER_CALL = 1024
_MAPS = 4  # texts in the picture of attention


@dataclasses.dataclass(frozen=True)
class Example:
    """A source text and its target text.

    Attributes:
        guid: Name of the example in predictions.
        text: str.
        target: str; None if it is unknown.
        place: file:line.
    """

    guid: str
    text: str
    target: str | None
    place: str


def label_names(task: Task, examples: Sequence[Example], run: FinetuningConfig) -> tuple[str, ...]:
    """(), because the outputs are pieces of the vocabulary."""
    return ()


def classes(task: Task, example: Example) -> tuple[str, ...]:
    """(), because a text has no class."""
    return ()


def sources(examples: Sequence[Example]) -> list[tuple]:
    """The text of each example."""
    return [sampling.content(example.text) for example in examples]


def input_names(examples: Sequence[Example]) -> list[str]:
    """The names of the inputs of an exported model."""
    return ["text"]


def featurize(
    task: Task, examples: Sequence[Example], tokenizer, run: FinetuningConfig, labels: tuple, has_labels: bool = True
) -> Features:
    """The Features of examples. Texts and targets that are too long lose their ends."""
    builder, targets, cut, cut_targets = RowBuilder(tokenizer), [], 0, 0
    pieces = piece_ids(tokenizer, [example.text for example in examples])
    for ids in pieces:
        cut += len(ids) > run.max_seq_length - 2
        builder.add(ids[: run.max_seq_length - 2])
    writer = target_tokenizer(tokenizer)
    for ids in piece_ids(writer, [example.target for example in examples]) if has_labels else ():
        cut_targets += len(ids) > run.target_length - 2
        targets.append(np.concatenate([[writer.cls_id], ids[: run.target_length - 2], [writer.sep_id]]))
    notes = examples.notes() if isinstance(examples, Examples) else []
    notes += notes_of_empty(examples, [number for number, ids in enumerate(pieces) if not len(ids)])
    if cut or cut_targets:
        notes.append(
            f"{cut:,} of {len(examples):,} texts have more than {run.max_seq_length} tokens, {cut_targets:,} targets "
            f"have more than {run.target_length}; they lost their ends"
        )
    features = builder.features(np.arange(len(examples)), notes=notes)
    if has_labels:
        features.target_ids = np.concatenate(targets).astype(np.int32)
        features.target_splits = np.concatenate([[0], np.cumsum([len(ids) for ids in targets])]).astype(np.int64)
    features.for_decode = {
        "vocabulary": writer.vocabulary,
        "writer": writer,
        "source_vocabulary": tokenizer.vocabulary,
    }
    return features


def target_tokenizer(tokenizer):
    """The tokenizer of target texts: its own, or that of all texts.

    Args:
        tokenizer: the result of runs.shared_tokenizer.run_tokenizer.
    """
    return getattr(tokenizer, "target", tokenizer)


def texts(examples: Sequence[Example]) -> list[str]:
    """All source and target texts, on which a run can train masked LM."""
    return [text for example in examples for text in (example.text, example.target) if text]


def make_head(task: Task, run: FinetuningConfig, labels: tuple, tokenizer) -> Decoder:
    """The Decoder of a run.

    Raises:
        UserError: The run has both bilstm_units and a Transformer decoder, or shares all weights between two
            vocabularies.
    """
    if run.bilstm_units and run.decoder == TRANSFORMER:
        raise UserError(
            f"--bilstm_units={run.bilstm_units}: is for recurrent decoders; leave it out, or give "
            "--decoder=rnn_feedback"
        )
    writer, shares, own = target_tokenizer(tokenizer), run.shared_weights, {}
    if writer is not tokenizer:
        if shares == "all":
            raise UserError(
                "--shared_weights=all: two vocabularies have two tables of embeddings; give --shared_weights=nothing, "
                "or leave out --target_vocab_file"
            )
        pieces = "".join(f"{piece}\n" for piece in writer.vocabulary)
        shares, own = "nothing", {"vocab_size": writer.vocab_size, "vocab_sha256": _sha256(pieces)}
    return Decoder(
        run.decoder,
        run.decoder_layers,
        shares,
        writer.cls_id,
        writer.sep_id,
        writer.never_written,
        writer.vocab_size,
        attention=run.attention,
        context=run.context,
        bilstm_units=run.bilstm_units,
        recurrent_encoder=run.recurrent_encoder,
        **own,
    )


def _sha256(text):
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def make_objective(task: Task, run: FinetuningConfig, head: Decoder) -> objectives.TextToText:
    """Cross-entropy over the pieces of the targets."""
    return objectives.TextToText(run.label_smoothing)


def decoding_options(run: FinetuningConfig) -> DecodingOptions:
    """The DecodingOptions of a run. Its seed decides draws."""
    return DecodingOptions(
        run.target_length - 1, run.num_beams, run.length_penalty, run.temperature, run.top_k, run.top_p, run.seed
    )


def make_answers(run: FinetuningConfig) -> Callable:
    """Makes the function that decodes texts. It returns a dict with ids [B, K, T] and scores [B, K]."""
    options = decoding_options(run)

    def answers(model, batch, execution):
        return model.decoded(batch, options, execution)._asdict()

    return answers


def decode(
    task: Task,
    examples: Sequence[Example],
    features: Features,
    logits: Sequence[dict],
    run: FinetuningConfig,
    labels: tuple,
) -> list[dict]:
    """The predictions from decoded ids.

    Args:
        task: Task.
        examples: The examples.
        features: Features of the examples.
        logits: A dict with ids [K, T] and scores [K] for each example.
        run: FinetuningConfig.
        labels: ().

    Returns:
        list of dicts with text (the best text), texts (the K best texts, best first) and scores (their scores).
    """
    writer = features.for_decode["writer"]
    flat = np.concatenate([entry["ids"] for entry in logits])
    decoded = []
    for start in range(0, len(flat), _TEXTS_PER_CALL):
        batch = texts_of_ids(tf.constant(flat[start : start + _TEXTS_PER_CALL]), writer)
        decoded += [text.decode() for text in batch.numpy()]
    predictions, rest = [], iter(decoded)
    for entry in logits:
        best = [next(rest) for _ in entry["ids"]]
        scores = [round(float(score), 6) for score in entry["scores"]]
        predictions.append({"text": best[0], "texts": best, "scores": scores})
    return predictions


def _compared(examples, predictions):
    """(outputs, references) as lists of texts."""
    return [prediction["text"] for prediction in predictions], [example.target for example in examples]


def score(task: Task, examples: Sequence[Example], predictions: Sequence[dict], labels: tuple) -> dict[str, float]:
    """dict metric -> score. BLEU and chrF are from 0 to 100, the share of exact matches is from 0 to 1.

    token_accuracy is the share of the words of all references that stand at the same place in the output.
    """
    outputs, references = _compared(examples, predictions)
    scorers = {
        "bleu": lambda: text_scores.bleu_of_counts(text_scores.bleu_counts(outputs, references)),
        "bleu_lowercase": lambda: text_scores.bleu_of_counts(text_scores.bleu_counts(outputs, references, True)),
        "chrf": lambda: text_scores.chrf(outputs, references),
        "exact_match": lambda: float(
            np.mean([a.split() == b.split() for a, b in zip(outputs, references, strict=True)])
        ),
    }
    scorers["token_accuracy"] = lambda: _share_of_words(outputs, references)
    return {name: scorers[name]() for name in task.metrics}


def _share_of_words(outputs, references):
    pairs = [(output.split(), reference.split()) for output, reference in zip(outputs, references, strict=True)]
    right = sum(a == b for output, reference in pairs for a, b in zip(output, reference, strict=False))
    return right / max(1, sum(len(reference) for _, reference in pairs))


def signatures(examples: Sequence[Example]) -> dict[str, str]:
    """dict metric -> sacrebleu's signature."""
    return text_scores.signatures([example.target for example in examples])


def measure(task: Task, examples: Sequence[Example], predictions: Sequence[dict], labels: tuple) -> intervals.Measure:
    """The Measure of the first metric: BLEU or chrF of any set of the texts."""
    outputs, references = _compared(examples, predictions)
    if task.metrics[0] == "chrf":
        counts = text_scores.chrf_counts(outputs, references)
        return lambda indices: text_scores.chrf_of_counts(counts[indices])
    counts = text_scores.bleu_counts(outputs, references)
    return lambda indices: text_scores.bleu_of_counts(counts[indices])


def baseline(
    task: Task, train_examples: Sequence[Example], examples: Sequence[Example], labels: tuple
) -> tuple[str, list[dict]]:
    """(description, predictions) of the baseline: the text itself."""
    return "the text itself, unchanged", [{"text": example.text} for example in examples]


def answers(
    task: Task, examples: Sequence[Example], predictions: Sequence[dict], labels: tuple
) -> tuple[list[int], list[int], tuple[str, ...]]:
    """(number of words of each target, number of words of each answer, ()), for the picture."""
    outputs, references = _compared(examples, predictions)
    return [len(text.split()) for text in references], [len(text.split()) for text in outputs], ()


def pictures(model, features: Features, logits: Sequence[dict], title: str) -> dict[str, bytes]:
    """attention.png: what the first outputs look at in their texts; {} for a decoder without attention.

    Args:
        model: TextToTextModel.
        features: Features of some examples.
        logits: The ids of each example, as for decode.
        title: str. The heading of the picture.

    Returns:
        dict file name -> content of a PNG file.
    """
    if not model.has_attention:
        return {}
    units = np.arange(min(_MAPS, features.num_units))
    batch = make_batch(features, units, len(units), int(features.longest_rows()[units].max()))
    ids = np.stack([logits[unit]["ids"][0] for unit in units])
    inputs = {name: tf.constant(values) for name, values in batch.items() if name.startswith("input_")}
    shares = model.alignments(inputs, tf.constant(ids)).numpy()
    names_of = [features.for_decode[name] for name in ("source_vocabulary", "vocabulary")]
    maps = []
    for unit, row_ids, row_shares in zip(units, ids, shares, strict=True):
        start, end = features.row_splits[unit : unit + 2]
        source, target = features.token_ids[start:end], row_ids[row_ids > 0]
        names = [[pieces[id] for id in ids] for pieces, ids in zip(names_of, (source, target), strict=True)]
        maps.append((*names, row_shares[: len(target), : len(source)]))
    return {"attention.png": draw_alignments(maps, title)}


def write_predictions(task: Task, directory: str, examples: Sequence[Example], predictions: Sequence[dict]) -> None:
    """Writes translations.txt, or rewrites.txt for other tasks: one text per line, in the order of the examples."""
    name = "translations.txt" if task.name == "translation" else "rewrites.txt"
    with open(os.path.join(directory, name), "w", encoding="utf-8", newline="") as file:
        file.writelines(" ".join(prediction["text"].split()) + "\n" for prediction in predictions)


def mistakes(task: Task, examples: Sequence[Example], predictions: Sequence[dict], most: int) -> list[dict]:
    """At most `most` answers as dicts, the lowest chrF first."""
    outputs, references = _compared(examples, predictions)
    scores = text_scores.chrf_of_texts(outputs, references)
    return [
        {
            "place": examples[index].place,
            "chrf": round(float(scores[index]), 2),
            "predicted": outputs[index],
            "right": references[index],
            "text": examples[index].text,
        }
        for index in np.argsort(scores, kind="stable")[:most]
        if outputs[index] != references[index]
    ]
