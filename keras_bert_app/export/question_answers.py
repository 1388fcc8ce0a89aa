"""SavedModels for question answering: the best answers to a question in a text.

The graph does for raw texts what tasks.families.answer_spans does for files. Dimensions: B questions, N windows,
S the longest row.
"""

import tensorflow as tf

from keras_bert_app.export import best_answers, rows
from keras_bert_app.export.chunks import logits_of_rows
from keras_bert_app.export.specs import about_run, checked_ids, ids_specs, takes_rows, text_spec, variables
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.tasks.families.squad_scores import may_have_no_answer

_EXAMPLE = {
    "question": "Where was Marie Curie born?",
    "context": "Marie Curie was born in Warsaw in 1867. She moved to Paris in 1891, where she studied physics.",
}
# The context of a token in a window is the smaller number of tokens to its left or right, plus this share of the
# window's length (run_squad.py, _check_is_max_context).
_LENGTH_SHARE = 0.01


class QuestionAnsweringModule(tf.Module):
    """Signatures that answer raw questions about contexts, or give the logits for rows of ids.

    Args:
        finetuned: tasks.scoring.FinetunedRun. The run that answers.
        max_windows: int. The most windows of a context; the model does not read the text beyond them.
        execution: Execution. The way to trace the signature over ids. LiteRT needs a value other than the default.
    """

    def __init__(self, finetuned, max_windows: int, execution: Execution = PLAIN):
        super().__init__(name="question_answering")
        self.model_variables = variables(finetuned.model)
        self.about = about_run(finetuned, {"serving_default": {name: [text] for name, text in _EXAMPLE.items()}})
        self.model, self.tokenizer, self.run = finetuned.model, finetuned.tokenizer, finetuned.run
        self.max_windows, self.has_null = max_windows, may_have_no_answer(finetuned.task)

        @tf.function(input_signature=[text_spec("question"), text_spec("context")], autograph=False)
        def serve(question, context):
            return self._answers(tf.ensure_shape(question, [None]), tf.ensure_shape(context, [None]))

        @takes_rows(ids_specs(self.model.config))
        def ids(*inputs):
            encoded = checked_ids(self.model.config, inputs, execution)
            logits = self.model(encoded, execution=execution)["logits"]
            return {"start_logits": logits[:, :, 0], "end_logits": logits[:, :, 1]}

        self.exported = {"serving_default": serve, "ids": ids}

    def _answers(self, question, context):
        run = self.run
        question, all_lengths = self._cut_questions(question)
        pieces, _, _, start_chars, end_chars = self.tokenizer.tokenize_with_offsets(context)
        (question_start, question_length), (text_start, length) = rows.spans(question), rows.spans(pieces)
        room = run.max_seq_length - 3 - question_length
        example, start, window, counts = rows.windows(length, room, tf.minimum(room, run.doc_stride), self.max_windows)
        tokens = tf.concat([question.flat_values, pieces.flat_values], axis=0)
        inputs = rows.pack(
            self.tokenizer,
            tokens,
            (tf.gather(question_start, example), tf.gather(question_length, example)),
            (tf.gather(text_start, example) + start + tf.size(question.flat_values), window),
        )
        logits = tf.cast(logits_of_rows(self.model, inputs), tf.float64)
        # [N, S]: whether a token of a row belongs to a context, and its place among the tokens of all contexts.
        offset = tf.gather(question_length, example) + 2
        column = tf.range(tf.shape(logits)[1])
        in_window = column - offset[:, None]
        is_context = (in_window >= 0) & (in_window < window[:, None])
        place = tf.where(is_context, (tf.gather(text_start, example) + start)[:, None] + in_window, 0)
        is_best = self._is_max_context(is_context, in_window, window, place, tf.size(pieces.flat_values))
        is_token = tf.cast(inputs["input_mask"], tf.bool)
        logits = tf.where(is_token[:, :, None], logits, -float("inf"))
        by_question = tf.RaggedTensor.from_row_lengths(tf.range(tf.size(example)), counts)

        def best_of_question(item):
            window_numbers, characters, places = item
            windows = [tf.gather(part, window_numbers) for part in (logits, is_best, is_context, place)]
            return best_answers.n_best(
                windows,
                characters,
                tf.gather(start_chars.flat_values, places),
                tf.gather(end_chars.flat_values, places),
                places,
                run,
                self.has_null,
            )

        places_of_contexts = pieces.with_flat_values(tf.range(tf.size(pieces.flat_values)))
        outputs = tf.map_fn(
            best_of_question,
            (by_question, tf.strings.unicode_split(context, "UTF-8"), places_of_contexts),
            fn_output_signature=best_answers.signature(run, self.has_null),
        )
        end = tf.gather(start, tf.cumsum(counts) - 1) + tf.gather(window, tf.cumsum(counts) - 1)
        return {**outputs, "num_windows": counts, "truncated": (all_lengths > question_length) | (end < length)}

    def _cut_questions(self, question):
        """Returns the pieces of the questions, max_query_length at most, and their full lengths, int32 [B]."""
        pieces = self.tokenizer.tokenize(question)
        return pieces[:, : self.run.max_query_length], tf.cast(pieces.row_lengths(), tf.int32)

    @staticmethod
    def _is_max_context(is_context, in_window, window, place, num_tokens):
        """Finds the window in which each token has most context.

        Args:
            is_context: bool [N, S]. Whether a token belongs to a context.
            in_window: int32 [N, S]. The place of a token in its window.
            window: int32 [N]. The number of tokens of a window.
            place: int32 [N, S]. The place of a token among the tokens of all contexts.
            num_tokens: int32 scalar. The number of tokens of all contexts.

        Returns:
            bool [N, S]: whether the token has its most context in this window. Among equal windows the first counts.
        """
        context = tf.minimum(in_window, window[:, None] - 1 - in_window)
        score = tf.cast(context, tf.float64) + _LENGTH_SHARE * tf.cast(window, tf.float64)[:, None]
        score = tf.where(is_context, score, -1.0)
        number = tf.broadcast_to(tf.range(tf.size(window))[:, None], tf.shape(place))
        best = tf.math.unsorted_segment_max(
            tf.boolean_mask(score, is_context), tf.boolean_mask(place, is_context), num_tokens
        )
        best = tf.concat([best, [0.0]], axis=0)
        is_first = is_context & (score == tf.gather(best, place))
        first = tf.math.unsorted_segment_min(
            tf.boolean_mask(number, is_first), tf.boolean_mask(place, is_first), num_tokens
        )
        return is_first & (tf.gather(tf.concat([first, [0]], axis=0), place) == number)
