"""Tasks that judge the heads of a model: masked LM on a text, or the task of a fine-tuned run.

MaskedLM and Tuned have these attributes and methods:
    name: str. The task, for titles.
    data: str. One line about the data, for titles and remarks.
    remarks: list of str. Lines that say how much was read and left out.
    subject_name: str. The name of the model.
    origin: dict. See encoders.origin_of.
    model: Keras model. Its encoder has the heads.
    estimation: list of batches. The data that importance is estimated on.
    num_estimated: int. The number of rows (MaskedLM) or examples (Tuned) in estimation.
    num_scored: int. The number of masked tokens (MaskedLM) or examples (Tuned) that are scored.
    outputs(model, batch): computes the outputs of a model of the same kind. It can be traced into a graph.
    loss(outputs, batch): returns the sum of the losses of the batch.
    score(call): scores rows that are not in estimation. call maps a batch to outputs. Returns a dict of figures, the
        main one first.
    is_better_high: bool. Whether a high main figure is good.
    inputs: dict. One batch of the rows that are scored.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from keras_bert_app.analysis import encoders, input_texts
from keras_bert_app.analysis.options import Options
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import labelled_data, predicting
from keras_bert_app.tasks.batches import evaluation_batches, make_batch
from keras_bert_app.tasks.features import RowBuilder
from keras_bert_app.tasks.ranking_objective import LISTWISE
from keras_bert_app.tasks.scoring import FinetunedRun
from keras_bert_app.tasks.task import RERANK, SIMILARITY
from keras_bert_app.training.losses import classification_sums
from pipelines.examples.masking import mask_tokens

_ROW_LENGTH, _ROWS_A_BATCH = 128, 16
# google-research/bert, README: 20 predictions for a row of 128 tokens, 15 % of the tokens masked.
_PREDICTIONS, _MASKED_SHARE = 20, 0.15
_DEFAULT_SENTENCES = 1000


def check(options: Options) -> None:
    """Checks that the options name data to score heads on.

    Args:
        options: Options.

    Raises:
        UserError: neither input_file nor workdir is set.
    """
    if not options.input_file and not options.workdir:
        raise UserError(
            "--input_file is missing: the text that masked LM is scored on; or give --workdir, a fine-tuned run, to "
            "score its dev examples"
        )


def load(subject: encoders.Subject | None, options: Options, log: Callable[[str], None]) -> "MaskedLM | Tuned":
    """Loads the task of options.workdir, or else masked LM on options.input_file.

    Args:
        subject: Subject or None. Masked LM needs it.
        options: Options.
        log: Callable. Receives the remarks of the task.

    Returns:
        MaskedLM or Tuned.

    Raises:
        UserError: neither option is set, or the model has no masked-LM head.
    """
    check(options)
    if subject is not None:
        encoders.require_attention(subject.config)
    task = Tuned(options) if options.workdir else _masked_lm(subject, options)
    for line in task.remarks:
        log(line)
    return task


def _masked_lm(subject, options):
    if subject.model is None or "masked_lm" not in subject.model.parts:
        raise UserError(
            "--init_checkpoint has no masked-LM head, so the text of --input_file gives no loss; give a model with "
            "that head, or --workdir with a fine-tuned run"
        )
    return MaskedLM(subject, options)


class MaskedLM:
    """Masked LM over rows of whole sentences, each at most 128 tokens long.

    The task masks 15 % of the tokens once. The first half of the rows serves to estimate importance, and the second
    half to score.

    Args:
        subject: Subject. A model with a masked-LM head.
        options: Options. Uses input_file, max_sentences and seed.

    Raises:
        UserError: the text fills less than two rows.
    """

    is_better_high = False

    def __init__(self, subject: encoders.Subject, options: Options):
        self.model, self.subject_name, self.origin = subject.model, subject.name, subject.origin
        sentences, documents = input_texts.corpus_sentences(
            options.input_file, options.most_sentences(_DEFAULT_SENTENCES), subject.tokenizer.kind
        )
        length = min(_ROW_LENGTH, subject.config.max_position_embeddings)
        texts, numbers, left_out = input_texts.encodable(subject, sentences, length - 2)
        self.remarks = [
            input_texts.read_remark(options, len(sentences), _DEFAULT_SENTENCES),
            *([left_out] if left_out else []),
        ]
        rows = filled_rows(
            [np.concatenate(text.pieces) for text in texts], [documents[number] for number in numbers], length - 2
        )
        if len(rows) < 2:
            raise UserError(
                f"{options.input_file}: fills only one row of {length} tokens; expected at least two rows, one to "
                "estimate importance and one to score; give more text"
            )
        parts = rows[: len(rows) // 2], rows[len(rows) // 2 :]
        self.estimation, self.scored = (
            _masked_batches(subject.tokenizer, rows_of_half, length, options.seed) for rows_of_half in parts
        )
        self.num_estimated = len(parts[0])
        self.name = "masked LM"
        self.num_scored = int(sum(batch["masked_lm_weights"].numpy().sum() for batch in self.scored))
        self.data = (
            f"{options.input_file}: importance on {len(parts[0]):,} rows of at most {length} tokens, scores on "
            f"{self.num_scored:,} masked tokens of {len(parts[1]):,} other rows"
        )
        self.inputs = self.scored[0]

    def outputs(self, model, batch: dict) -> dict:
        return {"mlm_logits": model(batch, heads_only=True)["mlm_logits"]}

    def loss(self, outputs: dict, batch: dict):
        return self._sums(outputs, batch)[0]

    def _sums(self, outputs, batch):
        return classification_sums(outputs["mlm_logits"], batch["masked_lm_ids"], batch["masked_lm_weights"])

    def score(self, call: Callable) -> dict[str, float]:
        loss, correct, count = np.sum(
            [[float(value) for value in self._sums(call(batch), batch)] for batch in self.scored], axis=0
        )
        return {"loss": loss / count, "accuracy": correct / count}


class Tuned:
    """The task of a fine-tuned run.

    The dev examples that chose the weights of the run serve to estimate importance. The reported examples serve to
    score.

    Args:
        options: Options. Uses workdir and max_sentences.

    Raises:
        UserError: the run has less than two dev examples, or its encoder has no layer.
    """

    is_better_high = True  # a higher value of every task metric is better

    def __init__(self, options: Options):
        # Always float32, because the states of pruned and whole models may differ by 1e-5 at most.
        self.finetuned = finetuned = FinetunedRun(options.workdir, {"precision": "float32"})
        if finetuned.task.kind == SIMILARITY:
            raise UserError(
                f"--workdir={options.workdir}: is a run of --task=similarity, whose loss belongs to whole batches; "
                "give a run of another task"
            )
        if finetuned.run.ranking_loss == LISTWISE and finetuned.task.kind == RERANK:
            raise UserError(
                f"--workdir={options.workdir}: is a run of --task=rerank whose loss belongs to whole lists; give a run "
                "with --ranking_loss=binary or graded, or of another task"
            )
        encoders.require_attention(finetuned.model.config)
        encoders.refuse_columns(finetuned.model.config, options.workdir)
        self.model, self.task, self.subject_name = finetuned.model, finetuned.task, encoders.name_of(options.workdir)
        self.origin = encoders.origin_of(
            f"fine-tuned run {finetuned.checkpoint}",
            {variable.path: variable.numpy() for variable in finetuned.model.weights},
        )
        self.remarks = [
            f"These findings are about --workdir={options.workdir}; --{name}={getattr(options, name)} was not used."
            for name in ("init_checkpoint", "input_file")
            if getattr(options, name)
        ]
        examples = finetuned.task.read_split(
            finetuned.run.data_dir, "dev", finetuned.run, most=options.most_sentences()
        )
        if len(examples) < 2:
            raise UserError(
                f"{options.workdir}: dev examples that were read: {len(examples)}; expected at least two; raise "
                "--max_sentences, or give a run with more dev examples"
            )
        estimated, scored, scored_on = labelled_data.choosing_and_reported(finetuned.run, self.task, examples)
        self.examples = scored.first_of_groups(options.most_sentences())
        # The teacher is removed, so that the loss depends on the labels alone.
        self.objective = self.task.family.make_objective(
            self.task, dataclasses.replace(finetuned.run, teacher=""), finetuned.model.head
        )
        self.features = self._features(self.examples)
        self.estimation = [batch for batch, _ in self._batches(self._features(estimated))]
        self.num_estimated, self.num_scored = len(estimated), len(self.examples)
        self.name = self.task.name
        self.data = (
            f"{finetuned.directory}: importance on {self.num_estimated:,} dev examples of {self.task.name} that "
            f"chose the weights of the run, scores on {self.num_scored:,} examples of {scored_on}"
        )
        self.inputs = next(self._batches(self.features))[0]

    def _features(self, examples):
        return self.task.family.featurize(
            self.task, examples, self.finetuned.tokenizer, self.finetuned.run, self.finetuned.labels
        )

    def _batches(self, features):
        return evaluation_batches(features, self.finetuned.run, self.finetuned.run.global_batch_size)

    def outputs(self, model, batch: dict) -> dict:
        return model(batch)

    def loss(self, outputs: dict, batch: dict):
        return self.objective.loss_sums(outputs, batch)["loss_sum"]

    def score(self, call: Callable) -> dict[str, float]:
        logits = predicting.unit_logits(
            lambda batch: call(batch)["logits"].numpy(),
            self.model,
            self.features,
            self.finetuned.run,
            self.finetuned.run.global_batch_size,
        )
        family = self.task.family
        predictions = family.decode(
            self.task, self.examples, self.features, logits, self.finetuned.run, self.finetuned.labels
        )
        scores = family.score(self.task, self.examples, predictions, self.finetuned.labels)
        return {name: float(scores[name]) for name in self.task.metrics if name in scores}


def filled_rows(pieces: list[np.ndarray], documents: Sequence[int], room: int) -> list[np.ndarray]:
    """Fills rows with whole sentences of one document.

    Args:
        pieces: list of int32 arrays, none longer than room.
        documents: sequence of int. The document of each sentence.
        room: int. The largest number of pieces in a row.

    Returns:
        list of int32 arrays.
    """
    rows, last_document = [], None
    for sentence, document in zip(pieces, documents, strict=True):
        if document == last_document and sum(map(len, rows[-1])) + len(sentence) <= room:
            rows[-1].append(sentence)
        else:
            rows.append([sentence])
        last_document = document
    return [np.concatenate(row) for row in rows]


def _masked_batches(tokenizer, rows, length, seed):
    """list of batches of tensors for BertPretrainer and its masked-LM loss; the seed fixes the masks."""
    builder = RowBuilder(tokenizer)
    for row in rows:
        builder.add(row)
    features, batches = builder.features(range(len(rows))), []
    for at in range(0, len(rows), _ROWS_A_BATCH):
        units = range(at, min(at + _ROWS_A_BATCH, len(rows)))
        batch = {name: tf.constant(values) for name, values in make_batch(features, units, len(units), length).items()}
        batches.append(
            batch
            | mask_tokens(
                batch["input_word_ids"],
                batch["input_mask"],
                tf.constant([seed, at]),
                masked_lm_prob=_MASKED_SHARE,
                max_predictions_per_seq=min(_PREDICTIONS, length),
                vocab_size=tokenizer.vocab_size,
                mask_id=tokenizer.mask_id,
                never_masked=(tokenizer.cls_id, tokenizer.sep_id),
            )
        )
    return batches
