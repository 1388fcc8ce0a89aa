"""Raw texts for the analyses: their pieces and words, each with its place in the text."""

import dataclasses

import numpy as np

from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.options import Options
from keras_bert_app.errors import UserError
from keras_bert_app.tasks.features import pieces_with_spans
from pipelines.text.readers import expand_files, read_documents
from pipelines.wordpiece.tokenizer import BertTokenizer


@dataclasses.dataclass(frozen=True)
class Text:
    """A text of W words. A word is a unit of BERT's split at white space, punctuation and CJK characters.

    Attributes:
        text: str.
        pieces: list of W int32 arrays. The pieces of each word.
        characters: list of W int32 arrays [pieces, 2]. The part of the text that each piece stands for, the end
            exclusive.
    """

    text: str
    pieces: list
    characters: list

    def word_spans(self) -> list[tuple[int, int]]:
        """Returns a list of W (start, end) in characters."""
        return [(int(spans[0, 0]), int(spans[-1, 1])) for spans in self.characters]

    def words(self) -> list[str]:
        """Returns a list of W str, as the text writes the words."""
        return [self.text[start:end] for start, end in self.word_spans()]

    def beginning(self, num_pieces: int) -> "Text":
        """Cuts the text after the last word that fits.

        Args:
            num_pieces: int. The largest number of pieces of the words that stay.

        Returns:
            Text.
        """
        count = int(np.searchsorted(np.cumsum([len(word) for word in self.pieces]), num_pieces, side="right"))
        return self if count == len(self.pieces) else Text(self.text, self.pieces[:count], self.characters[:count])


def cut(tokenizer: BertTokenizer, texts: list[str]) -> list[Text]:
    """Splits texts into words and pieces.

    Args:
        tokenizer: BertTokenizer.
        texts: list of str.

    Returns:
        list of Text.
    """
    is_continuation = np.array([piece.startswith("##") for piece in tokenizer.vocabulary])
    result = []
    for text, (pieces, characters) in zip(texts, pieces_with_spans(tokenizer, texts), strict=True):
        starts = np.flatnonzero(~is_continuation[pieces])
        # np.split of an empty array returns one empty array, not none.
        result.append(
            Text(
                text,
                np.split(pieces, starts[1:]) if len(starts) else [],
                np.split(characters, starts[1:]) if len(starts) else [],
            )
        )
    return result


def corpus_sentences(path: str, max_sentences: int = 0, tokenizer: str = "wordpiece") -> tuple[list[str], list[int]]:
    """Reads the sentences of text files in any format that prepare_corpus reads.

    The lines of a plain text are split into sentences.

    Args:
        path: str. A file, a directory of files or a pattern.
        max_sentences: int. How many sentences to read; 0 for all.
        tokenizer: str. The kind of the model's tokenizer. The lines of symbols are not split.

    Returns:
        (list of str, list of int): the sentences, and the document of each. A document is a line, or a block between
        blank lines.

    Raises:
        UserError, DataError: the file cannot be read, or it has no sentence.
    """
    sentences, documents = [], []
    for number, document in enumerate(
        read_documents(expand_files([path]), "symbols" if tokenizer == "symbols" else "auto")
    ):
        sentences += document
        documents += [number] * len(document)
        if max_sentences and len(sentences) >= max_sentences:
            break
    if not sentences:
        raise UserError(f"{path}: holds no text; give a file with one text in each line")
    end = max_sentences or len(sentences)
    return sentences[:end], documents[:end]


def read_remark(options: Options, num_read: int, default: int) -> str:
    """Says how many sentences of a file were read, and which limit applied.

    Args:
        options: Options.
        num_read: int. The number of sentences from corpus_sentences.
        default: int. The default of the analysis if --max_sentences sets no limit.

    Returns:
        str. One line.
    """
    most = options.most_sentences(default)
    if not most or num_read < most:
        return f"All {num_read:,} sentences of {options.input_file} were read."
    reason = (
        "--max_sentences" if options.max_sentences >= 0 else "the default of this analysis; --max_sentences=0 takes all"
    )
    return f"The first {num_read:,} sentences of {options.input_file} were read ({reason})."


def encodable(
    subject: Subject, sentences: list[str], most_pieces: int | None = None
) -> tuple[list[Text], list[int], str]:
    """Splits sentences, and leaves out those without a word and those that are too long.

    Args:
        subject: Subject. Sentences must fit into the encoder's positions.
        sentences: list of str.
        most_pieces: int or None. A further limit on the pieces of a sentence.

    Returns:
        (list of Text, list of int, str): the remaining sentences, their numbers, and a remark on the sentences that
        were left out, or "".

    Raises:
        UserError: no sentence remains.
    """
    room = min(most_pieces or np.inf, subject.config.max_position_embeddings - 2)
    texts = cut(subject.tokenizer, sentences)
    sizes = [sum(map(len, text.pieces)) for text in texts]
    kept = [number for number, size in enumerate(sizes) if 0 < size <= room]
    empty, long = sum(size == 0 for size in sizes), sum(size > room for size in sizes)
    if not kept:
        raise UserError(f"all {len(texts):,} sentences are empty or longer than {room:,.0f} pieces; give shorter ones")
    remark = (
        f"Left out of {len(texts):,} sentences: {empty:,} without a word, {long:,} of more than {room:,.0f} pieces."
        if empty or long
        else ""
    )
    return [texts[number] for number in kept], kept, remark
