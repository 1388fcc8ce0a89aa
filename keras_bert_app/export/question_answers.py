"""SavedModels of question answering: the part of a text that answers a question, and the next best ones.

What tasks.answer_spans does of files, in graph. Dimensions: B questions, N windows, S the longest row.
"""

import tensorflow as tf

from keras_bert_app.export import best_answers, rows
from keras_bert_app.export.chunks import logits_of_rows
from keras_bert_app.export.specs import FROM_IDS, about_run, text_spec, variables
from keras_bert_app.tasks.families.squad_scores import may_have_no_answer

_EXAMPLE = {
    "question": "Where was Marie Curie born?",
    "context": "Marie Curie was born in Warsaw in 1867. She moved to Paris in 1891, where she studied physics.",
}
_LENGTH_SHARE = 0.01  # of a window's length in how much context a token has there: run_squad.py, _check_is_max_context


class QuestionAnsweringModule(tf.Module):
    """Raw questions and contexts to answers, and the logits over ids.

    Args:
        finetuned: tasks.scoring.FinetunedRun. max_windows: of a context; what is beyond them is not read.
    """

    def __init__(self, finetuned, max_windows):
        super().__init__(name="question_answering")
        self.model_variables = variables(finetuned.model)
        self.about = about_run(finetuned, {"serving_default": {name: [text] for name, text in _EXAMPLE.items()}})
        self.model, self.tokenizer, self.run = finetuned.model, finetuned.tokenizer, finetuned.run
        self.max_windows, self.has_null = max_windows, may_have_no_answer(finetuned.task)

        @tf.function(input_signature=[text_spec("question"), text_spec("context")], autograph=False)
        def serve(question, context):
            return self._answers(tf.ensure_shape(question, [None]), tf.ensure_shape(context, [None]))

        @tf.function(input_signature=FROM_IDS, autograph=False)
        def ids(input_word_ids, input_mask, input_type_ids):
            logits = self.model(
                {"input_word_ids": input_word_ids, "input_mask": input_mask, "input_type_ids": input_type_ids}
            )["logits"]
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
        # [N, S] Where in all contexts' tokens each token of a row stands, and whether it is of a context at all.
        offset = tf.gather(question_length, example) + 2
        column = tf.range(tf.shape(logits)[1])
        in_window = column - offset[:, None]
        is_context = (in_window >= 0) & (in_window < window[:, None])
        place = tf.where(is_context, (tf.gather(text_start, example) + start)[:, None] + in_window, 0)
        is_best = self._is_max_context(is_context, in_window, window, place, tf.size(pieces.flat_values))
        is_token = tf.cast(inputs["input_mask"], tf.bool)
        logits = tf.where(is_token[:, :, None], logits, -float("inf"))
        by_question = tf.RaggedTensor.from_row_lengths(tf.range(tf.size(example)), counts)

        def of_one(item):
            chosen, characters, some = item
            of_windows = [tf.gather(part, chosen) for part in (logits, is_best, is_context, place)]
            return best_answers.n_best(
                of_windows,
                characters,
                tf.gather(start_chars.flat_values, some),
                tf.gather(end_chars.flat_values, some),
                some,
                run,
                self.has_null,
            )

        everywhere = pieces.with_flat_values(tf.range(tf.size(pieces.flat_values)))
        outputs = tf.map_fn(
            of_one,
            (by_question, tf.strings.unicode_split(context, "UTF-8"), everywhere),
            fn_output_signature=best_answers.signature(run, self.has_null),
        )
        end = tf.gather(start, tf.cumsum(counts) - 1) + tf.gather(window, tf.cumsum(counts) - 1)
        return {**outputs, "num_windows": counts, "truncated": (all_lengths > question_length) | (end < length)}

    def _cut_questions(self, question):
        """(pieces of the questions, of max_query_length at most; how many they had, int32 [B])."""
        pieces = self.tokenizer.tokenize(question)
        return pieces[:, : self.run.max_query_length], tf.cast(pieces.row_lengths(), tf.int32)

    @staticmethod
    def _is_max_context(is_context, in_window, window, place, num_tokens):
        """Bool [N, S]: whether a token has, of the windows that hold it, most context in this one; the first of equals."""
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
