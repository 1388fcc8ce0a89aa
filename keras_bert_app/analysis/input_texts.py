"""Raw texts as the analyses take them: cut into pieces, the pieces joined to words, each with its place in the text."""

import dataclasses

import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.tasks.features import pieces_with_spans
from pipelines.text.readers import expand_files, read_documents


@dataclasses.dataclass(frozen=True)
class Text:
    """A text of W words. A word is what BERT's splitting at white space, punctuation and CJK characters leaves whole.

    Attributes:
        text: str. pieces: list of W int32 arrays, the pieces of each word.
        characters: list of W int32 arrays [pieces, 2], what part of the text each piece stands for, the end exclusive.
    """

    text: str
    pieces: list
    characters: list

    def word_spans(self):
        """List of W (start, end) in characters."""
        return [(int(spans[0, 0]), int(spans[-1, 1])) for spans in self.characters]

    def words(self):
        """List of W str, as the text writes them."""
        return [self.text[start:end] for start, end in self.word_spans()]

    def beginning(self, num_pieces):
        """The text with only those first words whose pieces are no more than num_pieces in all."""
        count = int(np.searchsorted(np.cumsum([len(word) for word in self.pieces]), num_pieces, side="right"))
        return self if count == len(self.pieces) else Text(self.text, self.pieces[:count], self.characters[:count])


def cut(tokenizer, texts):
    """List of Text of a list of str."""
    is_continuation = np.array([piece.startswith("##") for piece in tokenizer.vocabulary])
    found = []
    for text, (pieces, characters) in zip(texts, pieces_with_spans(tokenizer, texts)):
        starts = np.flatnonzero(~is_continuation[pieces])
        # np.split of nothing gives one empty array
        found.append(
            Text(
                text,
                np.split(pieces, starts[1:]) if len(starts) else [],
                np.split(characters, starts[1:]) if len(starts) else [],
            )
        )
    return found


def corpus_sentences(path, max_sentences=0):
    """The sentences of text files in any format that prepare_corpus reads; a plain line is split into its sentences.

    Args:
        path: a file, a directory of them or a pattern. max_sentences: only the first ones; 0 for all.

    Returns:
        (list of str, list of int: the document that each is of; a line is one, or what blank lines set apart).

    Raises:
        UserError, DataError: the file cannot be read, or there is no sentence in it.
    """
    sentences, documents = [], []
    for number, document in enumerate(read_documents(expand_files([path]))):
        sentences += document
        documents += [number] * len(document)
        if max_sentences and len(sentences) >= max_sentences:
            break
    if not sentences:
        raise UserError(f"{path}: holds no text; give a file with a text a line")
    end = max_sentences or len(sentences)
    return sentences[:end], documents[:end]


def read_remark(options, num_read, by_itself):
    """A line that says how many sentences were read of a file, and why no more.

    Args:
        num_read: by corpus_sentences. by_itself: what the analysis takes where --max_sentences does not say.
    """
    most = options.most_sentences(by_itself)
    if not most or num_read < most:
        return f"All {num_read:,} sentences of {options.input_file} were read."
    why = (
        "--max_sentences"
        if options.max_sentences >= 0
        else "as many as this analysis takes by itself; --max_sentences=0 takes all"
    )
    return f"The first {num_read:,} sentences of {options.input_file} were read ({why})."


def encodable(subject, sentences, most_pieces=None):
    """(list of Text, list of the numbers of their sentences, remark on those that were left out or "").

    Left out are sentences without a word, and those longer than most_pieces or than the encoder's positions.
    """
    room = min(most_pieces or np.inf, subject.config.max_position_embeddings - 2)
    texts = cut(subject.tokenizer, sentences)
    sizes = [sum(map(len, text.pieces)) for text in texts]
    kept = [number for number, size in enumerate(sizes) if 0 < size <= room]
    empty, long = sum(size == 0 for size in sizes), sum(size > room for size in sizes)
    if not kept:
        raise UserError(f"all {len(texts):,} sentences are empty or longer than {room:,.0f} pieces; give shorter ones")
    remark = (
        f"Of {len(texts):,} sentences {empty:,} without a word and {long:,} of more than {room:,.0f} pieces were left "
        "out."
        if empty or long
        else ""
    )
    return [texts[number] for number in kept], kept, remark
