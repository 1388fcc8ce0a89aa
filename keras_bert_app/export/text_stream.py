"""Continues one text with a model in this process, and yields the new text while it is written."""

import dataclasses
import re
from collections.abc import Callable, Iterator

import tensorflow as tf

from keras_bert_app.config.bert_config import PARTS
from keras_bert_app.errors import UserError
from keras_bert_app.export.continuation import Continuation
from keras_bert_app.interop import load
from keras_bert_app.interop.weights import check_finite
from keras_bert_app.modeling.text_generation import Sampling
from keras_bert_app.runs.shared_tokenizer import tokenizer_of

_STEPS_AT_A_TIME = 8  # pieces between two outputs
_LENGTH_STEP = 64  # rows have a multiple of this length, so that few lengths are traced
# The end of a text that the next piece may change: its last word, or its last character in Chinese and Japanese.
_UNSTABLE = re.compile(r"(?:[\u3040-\u30ff\u3400-\u9fff]| ?[^\s\u3040-\u30ff\u3400-\u9fff]*)$")


@dataclasses.dataclass(frozen=True)
class GenerationOptions:
    """How texts are continued.

    Attributes:
        max_new_tokens: int. The most pieces of a continuation.
        temperature: float. See text_generation.Sampling.
        top_k: int. See text_generation.Sampling.
        top_p: float. See text_generation.Sampling.
        repetition_penalty: float. See text_generation.Sampling.
    """

    max_new_tokens: int = 100
    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 0.95
    repetition_penalty: float = 1.1


class TextStream:
    """A model that continues texts.

    Args:
        path: str. A run, a checkpoint, or a model in any layout that load_weights reads.
        options: GenerationOptions.

    Raises:
        UserError: the model cannot be read, has no vocabulary or no language-model head, or has too few positions.
    """

    def __init__(self, path: str, options: GenerationOptions):
        weights, _ = load.load_weights(path, allow_missing=PARTS[1:])
        check_finite(weights.tensors, weights.origin)
        is_finetuned = weights.task or weights.own_head
        if is_finetuned or not {"masked_lm", "language_model"} & set(weights.parts()):
            fault = "is a fine-tuned run" if is_finetuned else "has no head that predicts pieces"
            raise UserError(
                f"{weights.origin}: {fault}; give a pre-trained model with its masked-LM or language-model head"
            )
        if weights.vocabulary is None:
            raise UserError(f"{weights.origin}: has no vocab.txt, so texts cannot be read; put vocab.txt beside it")
        if weights.config.has_columns:
            raise UserError(
                f"{weights.origin}: reads channels or positions of lines, which a continuation does not have; name a "
                "model without them"
            )
        most = weights.config.max_position_embeddings - 2
        if options.max_new_tokens > most:
            raise UserError(
                f"--max_new_tokens={options.max_new_tokens}: expected at most {most}, because the model has "
                f"{weights.config.max_position_embeddings} positions"
            )
        self._options, self._model = options, load.build_model(weights)
        self._by_length = {}
        self._tokenizer = tokenizer_of(weights.vocabulary, weights.config)

    def continued(self, text: str | bytes, seed: int, warn: Callable[[str], None] = lambda line: None) -> Iterator[str]:
        """Continues a text.

        Args:
            text: str or bytes. The prompt. A prompt that is too long loses its beginning.
            seed: int. The seed of the draws.
            warn: function that takes a line about a prompt that is too long.

        Yields:
            str. The next part of the continuation. All parts together are the continuation.
        """
        text, new = tf.constant([text]), self._options.max_new_tokens
        num_pieces = int(self._tokenizer.tokenize(text).row_lengths()[0])
        positions = self._model.config.max_position_embeddings
        length = min(positions, -(-(num_pieces + new + 2) // _LENGTH_STEP) * _LENGTH_STEP)
        continuation, advance = self._functions(length)
        ids, lengths, truncated = continuation.prompts(text, tf.constant([new]))
        if truncated[0]:
            warn(f"the model reads only the last {int(lengths[0]) - 1} of {num_pieces} pieces of this text")
        limits, state = lengths + new, continuation.begin(ids, lengths)
        last_place = place = int(lengths[0]) - 1
        written = ""
        while place < int(limits[0]) - 1 and not bool(state.has_ended[0]):
            last_place = min(last_place + _STEPS_AT_A_TIME, int(limits[0]) - 1)
            state = advance(state, lengths, limits, tf.constant(last_place), tf.constant([seed], tf.int32))
            if int(state.place) == place:
                break  # the row has no room for another piece
            place = int(state.place)
            part, written = _stable_part(continuation.texts(state.ids, lengths).numpy()[0].decode(), written)
            yield part
        whole = continuation.texts(state.ids, lengths).numpy()[0].decode()
        yield whole[_place_after(whole, written) :]

    def _functions(self, length):
        """(Continuation, tf.function of Continuation.advance) for rows of a length."""
        if length not in self._by_length:
            self._by_length[length] = self._make_functions(length)
        return self._by_length[length]

    def _make_functions(self, length):
        options = self._options
        continuation = Continuation(self._model, self._tokenizer, length)
        numbers = float(options.temperature), options.top_k, float(options.top_p), float(options.repetition_penalty)

        @tf.function(autograph=False)
        def advance(state, lengths, limits, last_place, seed):
            sampling = Sampling(seed, *(tf.constant([number]) for number in numbers))
            return continuation.advance(state, lengths, limits, last_place, sampling)

        return continuation, advance


def _stable_part(text, written):
    """Returns (the part of a text that follows what was written, all that is written then).

    The last word is left out, because the next piece may continue it.
    """
    end = _UNSTABLE.search(text).start()
    start = _place_after(text, written)
    return (text[start:end], text[:end]) if start < end else ("", written)


def _place_after(text, written):
    """Finds the end of what was written in a text.

    The rules that join pieces may remove a space later, such as the one after an opening quotation mark. So the
    function counts the other characters.
    """
    if text.startswith(written):
        return len(written)
    left = len(written.replace(" ", ""))
    for place, character in enumerate(text):
        if not left:
            return place
        left -= character != " "
    return len(text)
