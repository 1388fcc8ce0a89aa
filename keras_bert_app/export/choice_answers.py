"""SavedModels for multiple choice. They select one of an example's choices."""

from collections.abc import Sequence

import tensorflow as tf

from keras_bert_app.export import rows
from keras_bert_app.export.specs import about_run, checked_ids, ids_specs, takes_rows, text_spec, variables
from keras_bert_app.modeling.execution import PLAIN, Execution

_EXAMPLE = {
    "context": ["She opened the umbrella because"],
    "question": ["What was the weather like?"],
    "choices": [["it rained.", "it was a book.", "the sun had set."]],
}


class ChoiceModule(tf.Module):
    """Signatures that choose among raw texts, or among rows of ids.

    Args:
        finetuned: tasks.scoring.FinetunedRun. The run that answers.
        inputs: ("context", "choices") or ("context", "question", "choices").
        execution: Execution. The way to trace the signature over ids. LiteRT needs a value other than the default.
    """

    def __init__(self, finetuned, inputs: Sequence[str], execution: Execution = PLAIN):
        super().__init__(name="multiple_choice")
        self.model_variables = variables(finetuned.model)
        self.about = about_run(finetuned, {"serving_default": {name: _EXAMPLE[name] for name in inputs}})
        model, tokenizer, max_seq_length = finetuned.model, finetuned.tokenizer, finetuned.run.max_seq_length

        def answers(context, question, choices):
            encoded, counts, truncated = _rows(tokenizer, max_seq_length, context, question, choices)
            logits = model(rows.grouped(encoded, counts))["logits"]
            # A choice "" may be at any place. The scatter puts each logit at the place of its choice.
            is_choice = choices != ""
            size = tf.shape(choices, out_type=tf.int64)
            logits_of_choices = tf.RaggedTensor.from_tensor(logits, lengths=counts).flat_values
            logits = tf.tensor_scatter_nd_update(
                tf.fill(size, logits.dtype.min), tf.where(is_choice), logits_of_choices
            )
            probabilities = tf.where(is_choice, tf.nn.softmax(logits), 0.0)
            return {
                "choice": tf.argmax(logits, axis=1, output_type=tf.int32),
                "probabilities": probabilities,
                "truncated": truncated,
            }

        choices_spec = tf.TensorSpec([None, None], tf.string, name="choices")
        if "question" in inputs:

            @tf.function(input_signature=[text_spec("context"), text_spec("question"), choices_spec], autograph=False)
            def serve(context, question, choices):
                return answers(context, question, choices)
        else:

            @tf.function(input_signature=[text_spec("context"), choices_spec], autograph=False)
            def serve(context, choices):
                return answers(context, tf.zeros_like(context), choices)

        @takes_rows(ids_specs(model.config, has_groups=True))
        def ids(*inputs):
            encoded = checked_ids(model.config, inputs, execution)
            logits = model(encoded, execution=execution)["logits"]
            is_choice = encoded["input_mask"][:, :, 0] > 0
            probabilities = tf.nn.softmax(tf.where(is_choice, logits, logits.dtype.min))
            return {
                "choice": tf.argmax(probabilities, axis=1, output_type=tf.int32),
                "probabilities": tf.where(is_choice, probabilities, 0.0),
            }

        self.exported = {"serving_default": serve, "ids": ids}


def _rows(tokenizer, max_seq_length, context, question, choices):
    """Makes the rows of choices in graph, as multiple_choice.featurize does.

    Args:
        tokenizer: BertTokenizer. The tokenizer of the model.
        max_seq_length: int. The most tokens of a row.
        context: string [B].
        question: string [B], "" for none.
        choices: string [B, choices], "" for none.

    Returns:
        (inputs of the encoder, dict of int32 [N, S]; rows of each example, int32 [B]; truncated, bool [B]).
    """
    is_choice = choices != ""
    counts = tf.reduce_sum(tf.cast(is_choice, tf.int32), axis=1)
    example = tf.cast(tf.where(is_choice)[:, 0], tf.int32)
    has_question = tf.gather(question != "", example)
    context, question = tokenizer.tokenize(context), tokenizer.tokenize(question)
    choice = tokenizer.tokenize(tf.boolean_mask(choices, is_choice))
    parts = [
        tuple(tf.gather(values, example) for values in rows.spans(context)),
        tuple(tf.gather(values, example) for values in rows.spans(question)),
        rows.spans(choice),
    ]
    lengths = [length for _, length in parts]
    kept = rows.kept_lengths(lengths, max_seq_length - tf.where(has_question, 4, 3))
    cut = sum(lengths) > sum(kept)
    truncated = tf.math.unsorted_segment_max(tf.cast(cut, tf.int32), example, tf.size(counts)) > 0
    # Segment B is question [SEP] choice, or the choice alone.
    num_separators = tf.cast(has_question, tf.int64)
    separator = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.reduce_sum(num_separators)], tokenizer.sep_id), num_separators
    )
    second = tf.concat(
        [
            _beginnings(question.flat_values, parts[1][0], kept[1]),
            separator,
            _beginnings(choice.flat_values, parts[2][0], kept[2]),
        ],
        axis=1,
    )
    start, length = rows.spans(second)
    tokens = tf.concat([context.flat_values, second.flat_values], axis=0)
    b = start + tf.size(context.flat_values), length
    return rows.pack(tokenizer, tokens, (parts[0][0], kept[0]), b), counts, truncated


def _beginnings(tokens, starts, lengths):
    """Cuts spans out of flat tokens.

    Args:
        tokens: int32 [T].
        starts: int32 [N]. The first token of each span.
        lengths: int32 [N]. The number of tokens of each span.

    Returns:
        RaggedTensor int32 [N, (tokens)].
    """
    places = tf.ragged.range(starts, starts + lengths)
    return places.with_flat_values(tf.gather(tf.concat([tokens, [0]], axis=0), places.flat_values))
