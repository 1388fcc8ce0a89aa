"""SavedModels for tagging. They give words with their tags, and the entities that the tags form."""

import numpy as np
import tensorflow as tf

from keras_bert_app.export import rows
from keras_bert_app.export.chunks import logits_of_rows
from keras_bert_app.export.specs import about_run, checked_ids, ids_specs, takes_rows, text_spec, variables
from keras_bert_app.export.word_splitter import WordSplitter
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.tasks.families.tagging import has_entities
from pipelines.ragged import keep, row_ids

_TEXT = "Marie Curie moved from Warsaw to Paris in 1891 and worked at the University of Paris."
# The context of a token in a window is the smaller number of tokens to its left or right, plus this share of the
# window's length (run_squad.py, _check_is_max_context).
_LENGTH_SHARE = 0.01


class TaggingModule(tf.Module):
    """Signatures that tag raw texts, lists of words, or rows of ids.

    The model reads long texts in overlapping windows. A word gets its tag from the window with most context.

    Args:
        finetuned: tasks.scoring.FinetunedRun. The run that tags.
        max_windows: int. The most windows of a text; the words beyond them get no answer.
        execution: Execution. The way to trace the signature over ids. LiteRT needs a value other than the default.
    """

    def __init__(self, finetuned, max_windows: int, execution: Execution = PLAIN):
        super().__init__(name="tagging")
        self.model_variables = variables(finetuned.model)
        self.about = about_run(
            finetuned,
            {"serving_default": {"text": [_TEXT]}, "words": {"words": [[*_TEXT.removesuffix(".").split(), "."]]}},
        )
        self.model, self.tokenizer, self.run = finetuned.model, finetuned.tokenizer, finetuned.run
        self.max_windows = max_windows
        self.tags = _Tags(finetuned.labels, has_entities(finetuned.task))
        self.exported = {
            "serving_default": self._text_function(WordSplitter(finetuned.tokenizer)),
            "words": self._words_function(),
            "ids": self._ids_function(execution),
        }

    def _text_function(self, splitter):
        @tf.function(input_signature=[text_spec()], autograph=False)
        def serve(text):
            pieces, first, starts, ends = splitter.split(tf.ensure_shape(text, [None]))
            if self.tokenizer.columns is not None:
                pieces = self.tokenizer.tokenize_with_columns(text)  # the same pieces, with their columns
            answers, windows = self._word_answers(pieces, first.flat_values, row_ids(first.row_splits))

            def by_text(values):
                return first.with_flat_values(values)

            words = rows.substrings(text, row_ids(first.row_splits), starts.flat_values, ends.flat_values)
            outputs = {
                "words": by_text(words).to_tensor(),
                "tags": by_text(answers["tags"]).to_tensor(),
                "word_probabilities": by_text(answers["word_probabilities"]).to_tensor(),
                "word_starts": starts.to_tensor(-1),
                "word_ends": ends.to_tensor(-1),
                **windows,
            }
            if self.tags.has_entities:
                outputs |= self._entities(text, by_text(answers["index"]), answers["word_probabilities"], starts, ends)
            return outputs

        return serve

    def _words_function(self):
        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.string, name="words")], autograph=False)
        def tag_words(words):
            words = tf.ensure_shape(words, [None, None])
            is_word = words != ""
            places = tf.where(is_word)
            pieces = self.tokenizer.tokenize_with_columns(tf.boolean_mask(words, is_word))
            # [W] The first piece of each word; -1 if the word has no pieces.
            first = tf.where(pieces.row_lengths() > 0, tf.cast(pieces.row_starts(), tf.int32), -1)
            by_text = tf.RaggedTensor.from_value_rowids(
                pieces, places[:, 0], nrows=tf.shape(words, out_type=tf.int64)[0]
            )
            answers, windows = self._word_answers(by_text.merge_dims(1, 2), first, tf.cast(places[:, 0], tf.int32))
            shape = tf.shape(words, out_type=tf.int64)
            tags = tf.tensor_scatter_nd_update(tf.fill(shape, ""), places, answers["tags"])
            return {
                "tags": tags,
                "word_probabilities": tf.scatter_nd(places, answers["word_probabilities"], shape),
                **windows,
            }

        return tag_words

    def _ids_function(self, execution):
        @takes_rows(ids_specs(self.model.config))
        def ids(*inputs):
            encoded = checked_ids(self.model.config, inputs, execution)
            logits = self.model(encoded, execution=execution)["logits"]
            return {"probabilities": tf.nn.softmax(logits)}

        return ids

    def _word_answers(self, pieces, first, row):
        """Computes the answers for W words.

        Args:
            pieces: RaggedTensor int32 [B, (pieces)], or [B, (pieces), 1 + C] with columns.
            first: int32 [W]. The first piece of each word, a place among the pieces of all texts; -1 for none.
            row: int32 [W]. The text of each word.

        Returns:
            dict with index, int32 [W], of the tag; tags, string [W]; word_probabilities, float32 [W], 0 for no answer.
            dict with num_windows, int32 [B], and truncated, bool [B].
        """
        text_start, length = rows.spans(pieces)
        room = self.run.max_seq_length - 2
        step = max(1, min(self.run.doc_stride, room // 2))
        example, start, window, counts = rows.windows(
            length, tf.fill(tf.shape(length), room), tf.fill(tf.shape(length), step), self.max_windows
        )
        logits = logits_of_rows(
            self.model, rows.pack(self.tokenizer, pieces.flat_values, (tf.gather(text_start, example) + start, window))
        )
        # [W] The window with most context for a piece is the last one, or one of the two whose middles enclose the
        # piece.
        place = first - tf.gather(text_start, row)
        before = tf.gather(tf.cumsum(counts, exclusive=True), row)
        last = tf.gather(counts, row) - 1
        middle = (place - (room - 1) // 2) // step
        best, most = before, tf.fill(tf.shape(place), -1.0)
        for number in (middle, middle + 1, last):
            number = before + tf.clip_by_value(number, 0, last)
            left, size = place - tf.gather(start, number), tf.gather(window, number)
            context = tf.cast(tf.minimum(left, size - 1 - left), tf.float32) + _LENGTH_SHARE * tf.cast(size, tf.float32)
            is_better = (left >= 0) & (left < size) & (context > most)
            best, most = tf.where(is_better, number, best), tf.where(is_better, context, most)
        is_tagged = (most >= 0) & (first >= 0)
        column = tf.where(is_tagged, place - tf.gather(start, best) + 1, 0)
        # [W, n] for n tags.
        probabilities = tf.nn.softmax(tf.gather_nd(logits, tf.stack([best, column], axis=1)))
        index = tf.where(is_tagged, tf.argmax(probabilities, axis=1, output_type=tf.int32), 0)
        if self.tags.has_entities:
            index = self.tags.in_iob2(index, row)
        end = tf.gather(start, tf.cumsum(counts) - 1) + tf.gather(window, tf.cumsum(counts) - 1)
        return (
            {
                "index": index,
                "tags": tf.gather(self.tags.names, index),
                "word_probabilities": tf.where(is_tagged, tf.reduce_max(probabilities, axis=1), 0.0),
            },
            {"num_windows": counts, "truncated": end < length},
        )

    def _entities(self, text, index, shares, starts, ends):
        """Finds the entities of texts from the tags of their words.

        Args:
            text: string [B].
            index: RaggedTensor int32 [B, (words)]. The tag of each word.
            shares: float32 [W]. The probability of each tag.
            starts: RaggedTensor int32 [B, (words)]. The first character of each word.
            ends: RaggedTensor int32 [B, (words)]. The end of each word, exclusive.

        Returns:
            dict of tensors [B, E]. E is the largest number of entities in a text.
        """
        begins = self.tags.begins(index.flat_values)
        inside = tf.gather(self.tags.type_of_tag, index.flat_values) > 0
        # [W] The number of the entity of each word, counted over all texts.
        number = tf.cumsum(tf.cast(begins, tf.int32)) - 1
        count = tf.reduce_sum(tf.cast(begins, tf.int32))
        entity = tf.boolean_mask(number, inside)

        def reduced(reduce, values):
            return reduce(tf.boolean_mask(values, inside), entity, count)

        entities = keep(index, begins)

        def by_text(values, default):
            return entities.with_flat_values(values).to_tensor(default)

        start = tf.boolean_mask(starts.flat_values, begins)
        end = reduced(tf.math.unsorted_segment_max, ends.flat_values)
        names = rows.substrings(text, row_ids(entities.row_splits), start, end)
        types = tf.gather(self.tags.types, tf.gather(self.tags.type_of_tag, entities.flat_values))
        return {
            "entities": by_text(names, ""),
            "entity_labels": by_text(types, ""),
            "entity_starts": by_text(start, -1),
            "entity_ends": by_text(end, -1),
            "entity_probabilities": by_text(reduced(tf.math.unsorted_segment_mean, shares), 0.0),
        }


class _Tags:
    """The tags of a model. Entity tasks have O and, in IOB2, B- and I- of each type (tagging.label_names)."""

    def __init__(self, labels, are_of_entities):
        self.names, self.has_entities = tf.constant(labels), are_of_entities
        if are_of_entities:
            types = sorted({label.partition("-")[2] for label in labels if label != "O"})
            self.types = tf.constant(["", *types])
            # [n] The type of each tag, 0 for O; whether the tag begins an entity; and the beginning tag of its type.
            self.type_of_tag = tf.constant(
                [0 if label == "O" else 1 + types.index(label.partition("-")[2]) for label in labels]
            )
            self.is_begin = tf.constant([label[0] == "B" for label in labels])
            self.begin_tag = tf.constant(
                np.array([labels.index("B" + label[1:]) if label != "O" else 0 for label in labels], np.int32)
            )

    def in_iob2(self, index, row):
        """Corrects tags [W] like conlleval: a tag after O, another type or another text begins an entity."""
        entity_type = tf.gather(self.type_of_tag, index)
        continues = (entity_type[1:] == entity_type[:-1]) & (row[1:] == row[:-1])
        continues = tf.concat([[False], continues], axis=0)[: tf.size(index)]
        return tf.where(continues, index, tf.gather(self.begin_tag, index))

    def begins(self, index):
        """Returns bool [W]: whether each of the IOB2 tags begins an entity."""
        return tf.gather(self.is_begin, index)
