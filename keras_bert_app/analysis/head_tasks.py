"""What a model's heads are judged by: masked LM on a text, or the task that it was fine-tuned for.

Both kinds have
    name, data: one line each, for titles and remarks; remarks: lines, what was read and left out;
    subject_name: whose heads they are; origin: see encoders.origin_of;
    model: a Keras model, whose encoder has the heads;
    estimation: list of batches to find importance on, and num_estimated, the rows (Tuned: examples) in them;
    outputs(model, batch): what a model of the same kind computes; it can be traced into a graph;
    loss(outputs, batch): the sum of the losses of the batch;
    score(call): dict of figures on rows that estimation does not have, the first the one to look at; call takes a batch
        and gives what `outputs` does;
    is_better_high: whether the first is the better the higher;
    inputs: a batch of the rows that are scored.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_bert_app.analysis import encoders, input_texts
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import predicting
from keras_bert_app.tasks.batches import evaluation_batches, make_batch
from keras_bert_app.tasks.features import RowBuilder
from keras_bert_app.tasks.scoring import FinetunedRun
from keras_bert_app.tasks.task import Examples
from keras_bert_app.training.losses import classification_sums
from pipelines.examples.masking import mask_tokens

_ROW_LENGTH, _ROWS_A_BATCH = 128, 16
_PREDICTIONS, _MASKED_SHARE = 20, 0.15  # of a row of 128: google-research/bert, README
_BY_ITSELF = 1000  # sentences


def check(options):
    """Raises UserError where there is nothing to score heads on."""
    if not options.input_file and not options.workdir:
        raise UserError(
            "--input_file is missing, a text that masked LM is scored on; or give --workdir, a fine-tuned run, "
            "which is scored on its dev examples"
        )


def load(subject, options, log):
    """The task of options.workdir, or else masked LM on options.input_file.

    Args:
        subject: encoders.Subject; None is enough with a workdir. log: called with the task's remarks.

    Raises:
        UserError: neither is given, or the model has no masked-LM head.
    """
    check(options)
    if subject is not None:
        encoders.require_layers(subject.config)
    task = Tuned(options) if options.workdir else _masked_lm(subject, options)
    for line in task.remarks:
        log(line)
    return task


def _masked_lm(subject, options):
    if subject.model is None or subject.model.masked_lm is None:
        raise UserError(
            "--init_checkpoint has no masked-LM head, so that --input_file gives no loss; give --workdir, a "
            "fine-tuned run of it"
        )
    return MaskedLM(subject, options)


class MaskedLM:
    """Loss and accuracy of masked LM over rows of up to 128 tokens of whole sentences, 15 % of them masked once for all.

    The first half of the rows is for estimation, the second is scored.
    """

    is_better_high = False

    def __init__(self, subject, options):
        self.model, self.subject_name, self.origin = subject.model, subject.name, subject.origin
        sentences, documents = input_texts.corpus_sentences(options.input_file, options.most_sentences(_BY_ITSELF))
        length = min(_ROW_LENGTH, subject.config.max_position_embeddings)
        kept, numbers, left_out = input_texts.encodable(subject, sentences, length - 2)
        self.remarks = [input_texts.read_remark(options, len(sentences), _BY_ITSELF), *([left_out] if left_out else [])]
        rows = filled_rows(
            [np.concatenate(text.pieces) for text in kept], [documents[number] for number in numbers], length - 2
        )
        if len(rows) < 2:
            raise UserError(
                f"{options.input_file}: fills one row of {length} tokens; expected two at least, one to estimate "
                "importance on and one to score"
            )
        halves = rows[: len(rows) // 2], rows[len(rows) // 2 :]
        self.estimation, self.scored = (
            _masked_batches(subject.tokenizer, half, length, options.seed) for half in halves
        )
        self.num_estimated = len(halves[0])
        self.name = "masked LM"
        count = int(sum(batch["masked_lm_weights"].numpy().sum() for batch in self.scored))
        self.data = (
            f"{options.input_file}: importance on {len(halves[0]):,} rows of at most {length} tokens, scores on "
            f"{count:,} masked tokens of {len(halves[1]):,} others"
        )
        self.inputs = self.scored[0]

    def outputs(self, model, batch):
        return {"mlm_logits": model(batch, heads_only=True)["mlm_logits"]}

    def loss(self, outputs, batch):
        return self._sums(outputs, batch)[0]

    def _sums(self, outputs, batch):
        return classification_sums(outputs["mlm_logits"], batch["masked_lm_ids"], batch["masked_lm_weights"])

    def score(self, call):
        loss, correct, count = np.sum(
            [[float(value) for value in self._sums(call(batch), batch)] for batch in self.scored], axis=0
        )
        return {"loss": loss / count, "accuracy": correct / count}


def _halves(examples, by_document):
    """(Every second of the examples, the others); by document where an example is read among its neighbours there."""
    if not by_document:
        return examples[0::2], examples[1::2]
    number = {document: at for at, document in enumerate(dict.fromkeys((one.path, one.document) for one in examples))}
    return tuple([one for one in examples if number[one.path, one.document] % 2 == half] for half in (0, 1))


class Tuned:
    """The task of a fine-tuned run: even ones of its dev examples are for estimation, odd ones are scored."""

    is_better_high = True  # as all metrics of tasks are

    def __init__(self, options):
        # In float32 whatever the run was trained in: models with heads and without are compared, down to the last bits.
        self.found = found = FinetunedRun(options.workdir, {"precision": "float32"})
        encoders.require_layers(found.model.config)
        self.model, self.task, self.subject_name = found.model, found.task, encoders.name_of(options.workdir)
        self.origin = encoders.origin_of(
            f"fine-tuned run {found.checkpoint}", {variable.path: variable.numpy() for variable in found.model.weights}
        )
        self.remarks = [
            f"--workdir={options.workdir} was looked into, and --{name}={getattr(options, name)} was not."
            for name in ("init_checkpoint", "input_file")
            if getattr(options, name)
        ]
        examples = found.task.read_split(found.run.data_dir, "dev", found.run, most=options.most_sentences())
        even, odd = _halves(examples, by_document=found.run.document_context)
        if not odd:
            raise UserError(
                f"{options.workdir}: has {len(examples)} dev example{'s of one document' * (len(examples) > 1)}; expected two at least"
            )
        # The labels alone count, whatever else a run learned from.
        self.objective = self.task.family.make_objective(
            self.task, dataclasses.replace(found.run, teacher=""), found.model.head
        )
        self.examples = Examples(odd)
        estimated = self._features(Examples(even))
        self.features = self._features(self.examples)
        self.estimation = [batch for batch, _ in self._batches(estimated)]
        self.num_estimated = len(even)
        self.name = self.task.name
        self.data = (
            f"{found.directory}: importance on {self.num_estimated:,} dev examples of {self.task.name}, scores on "
            f"{len(self.examples):,} others"
        )
        self.inputs = next(self._batches(self.features))[0]

    def _features(self, examples):
        return self.task.family.featurize(self.task, examples, self.found.tokenizer, self.found.run, self.found.labels)

    def _batches(self, features):
        return evaluation_batches(features, self.found.run, self.found.run.global_batch_size)

    def outputs(self, model, batch):
        return {"logits": model(batch)["logits"]}

    def loss(self, outputs, batch):
        return self.objective.loss_sums(outputs, batch)["loss_sum"]

    def score(self, call):
        logits = predicting.unit_logits(
            lambda batch: call(batch)["logits"].numpy(),
            self.model,
            self.features,
            self.found.run,
            self.found.run.global_batch_size,
        )
        family = self.task.family
        predictions = family.decode(self.task, self.examples, self.features, logits, self.found.run, self.found.labels)
        scores = family.score(self.task, self.examples, predictions, self.found.labels)
        return {name: float(scores[name]) for name in self.task.metrics if name in scores}


def filled_rows(pieces, documents, room):
    """Rows of whole sentences, as many of one document in each as fit: list of int32 arrays of at most `room` pieces.

    Args:
        pieces: list of int32 arrays, none longer than room. documents: of each sentence its document's number.
    """
    rows, last = [], None
    for sentence, document in zip(pieces, documents):
        if document == last and sum(map(len, rows[-1])) + len(sentence) <= room:
            rows[-1].append(sentence)
        else:
            rows.append([sentence])
        last = document
    return [np.concatenate(row) for row in rows]


def _masked_batches(tokenizer, rows, length, seed):
    """List of batches of tensors, what BertPretrainer and its masked-LM loss take; the same for the same seed."""
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
