"""SavedModels of tagging: words with their tags, and the entities that the tags tell of, with their places."""

import numpy as np
import tensorflow as tf

from keras_bert_app.export import rows
from keras_bert_app.export.chunks import logits_of_rows
from keras_bert_app.export.specs import FROM_IDS, about_run, text_spec, variables
from keras_bert_app.export.word_splitter import WordSplitter
from keras_bert_app.tasks.families.tagging import has_entities
from pipelines.ragged import keep, row_ids

_TEXT = "Marie Curie moved from Warsaw to Paris in 1891 and worked at the University of Paris."
_LENGTH_SHARE = 0.01  # of a window's length in how much context a token has there: run_squad.py, _check_is_max_context


class TaggingModule(tf.Module):
    """Raw texts, or lists of words, to tags, and the same over ids.

    Long texts go in overlapping windows; a word is tagged in the one where it has most context.

    Args:
        finetuned: tasks.scoring.FinetunedRun. max_windows: of a text; words beyond them have no answer.
    """

    def __init__(self, finetuned, max_windows):
        super().__init__(name="tagging")
        self.model_variables = variables(finetuned.model)
        self.about = about_run(
            finetuned,
            {"serving_default": {"text": [_TEXT]}, "words": {"words": [[*_TEXT.removesuffix(".").split(), "."]]}},
        )
        self.model, self.tokenizer, self.run, self.max_windows = (
            finetuned.model,
            finetuned.tokenizer,
            finetuned.run,
            max_windows,
        )
        self.tags = _Tags(finetuned.labels, has_entities(finetuned.task))
        splitter = WordSplitter(finetuned.tokenizer)

        @tf.function(input_signature=[text_spec()], autograph=False)
        def serve(text):
            pieces, first, starts, ends = splitter.split(tf.ensure_shape(text, [None]))
            of_words, windows = self._of_words(pieces, first.flat_values, row_ids(first.row_splits))

            def by_text(values):
                return first.with_flat_values(values)

            cut = rows.substrings(text, row_ids(first.row_splits), starts.flat_values, ends.flat_values)
            outputs = {
                "words": by_text(cut).to_tensor(),
                "tags": by_text(of_words["tags"]).to_tensor(),
                "word_probabilities": by_text(of_words["word_probabilities"]).to_tensor(),
                "word_starts": starts.to_tensor(-1),
                "word_ends": ends.to_tensor(-1),
                **windows,
            }
            if self.tags.has_entities:
                outputs |= self._entities(
                    text, by_text(of_words["index"]), of_words["word_probabilities"], starts, ends
                )
            return outputs

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.string, name="words")], autograph=False)
        def tag_words(words):
            words = tf.ensure_shape(words, [None, None])
            is_word = words != ""
            places = tf.where(is_word)
            cut = finetuned.tokenizer.tokenize(tf.boolean_mask(words, is_word))
            # [W] A word that comes to no piece has no first one.
            first = tf.where(cut.row_lengths() > 0, tf.cast(cut.row_starts(), tf.int32), -1)
            in_row = tf.RaggedTensor.from_value_rowids(cut, places[:, 0], nrows=tf.shape(words, out_type=tf.int64)[0])
            of_words, windows = self._of_words(in_row.merge_dims(1, 2), first, tf.cast(places[:, 0], tf.int32))
            shape = tf.shape(words, out_type=tf.int64)
            tags = tf.tensor_scatter_nd_update(tf.fill(shape, ""), places, of_words["tags"])
            return {
                "tags": tags,
                "word_probabilities": tf.scatter_nd(places, of_words["word_probabilities"], shape),
                **windows,
            }

        @tf.function(input_signature=FROM_IDS, autograph=False)
        def ids(input_word_ids, input_mask, input_type_ids):
            logits = self.model(
                {"input_word_ids": input_word_ids, "input_mask": input_mask, "input_type_ids": input_type_ids}
            )["logits"]
            return {"probabilities": tf.nn.softmax(logits)}

        self.exported = {"serving_default": serve, "words": tag_words, "ids": ids}

    def _of_words(self, pieces, first, row):
        """Answers of W words.

        Args:
            pieces: RaggedTensor int32 [B, (pieces)]. first: int32 [W], the place of a word's first piece among all, -1 for
                none. row: int32 [W], its text.

        Returns:
            dict: index int32 [W] of the tag, tags string [W], word_probabilities float32 [W], 0 where there is no answer;
            and dict: num_windows int32 [B], truncated bool [B].
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
        # [W] Of the windows that hold a piece the middle of one of two neighbours, or of the last one, is the nearest.
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
        # [W, n]
        shares = tf.nn.softmax(tf.gather_nd(logits, tf.stack([best, column], axis=1)))
        index = tf.where(is_tagged, tf.argmax(shares, axis=1, output_type=tf.int32), 0)
        if self.tags.has_entities:
            index = self.tags.in_iob2(index, row)
        end = tf.gather(start, tf.cumsum(counts) - 1) + tf.gather(window, tf.cumsum(counts) - 1)
        return (
            {
                "index": index,
                "tags": tf.gather(self.tags.names, index),
                "word_probabilities": tf.where(is_tagged, tf.reduce_max(shares, axis=1), 0.0),
            },
            {"num_windows": counts, "truncated": end < length},
        )

    def _entities(self, text, index, shares, starts, ends):
        """Entities of texts from the tags of their words, each [B, E]. Args: index: RaggedTensor int32 [B, (words)]."""
        begins = self.tags.begins(index.flat_values)
        inside = tf.gather(self.tags.of_kind, index.flat_values) > 0
        # [words] the number of the entity that a word is of, counted over all texts
        number = tf.cumsum(tf.cast(begins, tf.int32)) - 1
        count = tf.reduce_sum(tf.cast(begins, tf.int32))
        of_entities = tf.boolean_mask(number, inside)

        def folded(fold, values):
            return fold(tf.boolean_mask(values, inside), of_entities, count)

        found = keep(index, begins)

        def by_text(values, default):
            return found.with_flat_values(values).to_tensor(default)

        start = tf.boolean_mask(starts.flat_values, begins)
        end = folded(tf.math.unsorted_segment_max, ends.flat_values)
        cut = rows.substrings(text, row_ids(found.row_splits), start, end)
        kinds = tf.gather(self.tags.kinds, tf.gather(self.tags.of_kind, found.flat_values))
        return {
            "entities": by_text(cut, ""),
            "entity_labels": by_text(kinds, ""),
            "entity_starts": by_text(start, -1),
            "entity_ends": by_text(end, -1),
            "entity_probabilities": by_text(folded(tf.math.unsorted_segment_mean, shares), 0.0),
        }


class _Tags:
    """The tags of a model; of entities they are O and, in IOB2, B- and I- of each type, as tagging.label_names has them."""

    def __init__(self, labels, are_of_entities):
        self.names, self.has_entities = tf.constant(labels), are_of_entities
        if are_of_entities:
            kinds = sorted({label.partition("-")[2] for label in labels if label != "O"})
            self.kinds = tf.constant(["", *kinds])
            # [n] the number of the type, 0 for O; whether the tag begins an entity; and the tag of the type that does
            self.of_kind = tf.constant(
                [0 if label == "O" else 1 + kinds.index(label.partition("-")[2]) for label in labels]
            )
            self.is_begin = tf.constant([label[0] == "B" for label in labels])
            self.beginning = tf.constant(
                np.array([labels.index("B" + label[1:]) if label != "O" else 0 for label in labels], np.int32)
            )

    def in_iob2(self, index, row):
        """Tags [W] in which what follows O, another type or another text begins an entity, as conlleval reads it."""
        kind = tf.gather(self.of_kind, index)
        goes_on = tf.concat([[False], (kind[1:] == kind[:-1]) & (row[1:] == row[:-1])], axis=0)[: tf.size(index)]
        return tf.where(goes_on, index, tf.gather(self.beginning, index))

    def begins(self, index):
        """Bool [W] of tags in IOB2."""
        return tf.gather(self.is_begin, index)
