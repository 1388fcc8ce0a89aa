"""The table of word embeddings that a run begins with, from a file of word vectors (--init_vectors)."""

import dataclasses
from typing import Any

import numpy as np

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.config.weight_shapes import shapes
from keras_bert_app.errors import UserError
from keras_bert_app.interop.weights import Weights
from keras_bert_app.vectors.static import unknown_words
from keras_bert_app.vectors.static.word_vector_files import WordVectors, read_word_vectors
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES, UNUSED_PIECE, checked_pieces

KEY = "init_vectors"  # the key of the counts in config.json and results.json
_TABLE, _TABLE_OF_HEAD = "encoder/embeddings/word_embeddings", "token_features/word_embeddings"
_UNKNOWN_PIECE = "[UNK]"


@dataclasses.dataclass(frozen=True)
class VectorStart:
    """The beginning of a run's word embeddings.

    Attributes:
        counts: dict for config.json and results.json:
            pieces, found: pieces of the vocabulary that text can give, and those of them that the file has.
            not_in_training: found pieces that no training example has. They keep the vector of the file.
            filled_by: the value of --unknown_vectors, for the pieces that the file lacks.
            subwords: whether "characters" uses the subwords of a fastText training.
            special: special and [unusedN] pieces without a vector, which begin with random vectors.
            duplicates: lines of the file that repeat a word.
        rows: float32 [V, H]. The table; None for a run that resumes, whose checkpoint has it.
    """

    counts: dict[str, Any]
    rows: np.ndarray | None = None

    def line(self, path: str) -> str:
        """The line for the user.

        Args:
            path: the file of the vectors.
        """
        counts = self.counts
        text = f"vectors: {counts['found']:,} of {counts['pieces']:,} pieces have a vector in {path}"
        if others := counts["pieces"] - counts["found"]:
            source = " (subwords of fastText)" if counts["subwords"] else ""
            text += f", the other {others:,} by {counts['filled_by']}{source}"
        text += f"; {counts['not_in_training']:,} are in no training example"
        return text + (f"; {counts['duplicates']:,} lines of the file repeat a word" if counts["duplicates"] else "")


def read(run: FinetuningConfig, model_config: BertConfig) -> WordVectors:
    """Reads the file of --init_vectors.

    Args:
        run: FinetuningConfig.
        model_config: BertConfig.

    Raises:
        UserError: the file has a fault, or its vectors have another size than the embeddings.
    """
    size, whose = run.token_vector_size, "--token_vector_size"
    if not size:
        size, whose = shapes(model_config).get(_TABLE, (0, 0))[1], "the size of the model's word embeddings"
    if not size:
        raise UserError(
            f"--init_vectors={run.init_vectors}: the model makes the vectors of pieces from characters and has no "
            "table of them; give a --config without character_filters, or give the head its own table with "
            "--token_vector_size"
        )
    other = "that --token_vector_size" if run.token_vector_size else "a --config with the size of the vectors"
    hint = f", {whose}; give vectors of this size (learn_vectors --vector_size={size}), or {other}"
    return read_word_vectors(run.init_vectors, size, hint)


def make(run: FinetuningConfig, vocabulary: bytes, known: WordVectors, training_ids: np.ndarray) -> VectorStart:
    """Makes the table of a run that begins.

    Args:
        run: FinetuningConfig.
        vocabulary: content of the vocabulary file.
        known: WordVectors of --init_vectors.
        training_ids: int32 [T]. The ids of the training examples.

    Raises:
        UserError: the file has a vector for none of the pieces.
    """
    pieces = checked_pieces(vocabulary, "vocab.txt")
    rows = unknown_words.by_chance(pieces, known, run.seed)
    rows[pieces.index(_UNKNOWN_PIECE)] = unknown_words.unk_vector(known)
    ordinary = [piece for piece in pieces if piece not in SPECIAL_PIECES and not UNUSED_PIECE.fullmatch(piece)]
    is_ordinary, found = set(ordinary), [piece for piece in ordinary if piece in known.rows]
    if not found:
        raise UserError(
            f"--init_vectors={run.init_vectors}: has a vector for none of the {len(ordinary):,} pieces of the "
            f"vocabulary (its first words: {', '.join(known.words[:3])}); expected vectors of its pieces, as "
            "learn_vectors --vocab_file writes them, or of whole words"
        )
    # A file of learn_vectors --vocab_file has special pieces, too. Those that it lacks stay random.
    present = [number for number, piece in enumerate(pieces) if piece in known.rows]
    rows[present] = known.vectors[[known.rows[pieces[number]] for number in present]]
    lacking = [number for number, piece in enumerate(pieces) if piece in is_ordinary and piece not in known.rows]
    if lacking and run.unknown_vectors != "random":
        fill = unknown_words.POLICIES[run.unknown_vectors]
        rows[lacking] = fill([pieces[number] for number in lacking], known)
    in_training = {pieces[number] for number in np.unique(training_ids).tolist()}
    counts = {
        "pieces": len(ordinary),
        "found": len(found),
        "not_in_training": len(unknown_words.given(ordinary, known, in_training)),
        "filled_by": run.unknown_vectors,
        "subwords": run.unknown_vectors == "characters" and known.subwords is not None,
        "special": len(pieces) - len(present) - len(lacking),
        "duplicates": known.num_duplicates,
    }
    return VectorStart(counts, rows)


def in_head(weights: Weights, start: VectorStart) -> Weights:
    """Replaces the head's own vectors in initial weights by the rows.

    Args:
        weights: Weights to start from.
        start: VectorStart with rows.

    Returns:
        Weights. They stay the same if their head has no vectors of its own.
    """
    table = weights.tensors.get(_TABLE_OF_HEAD)
    if table is None:
        return weights
    return dataclasses.replace(weights, tensors={**weights.tensors, _TABLE_OF_HEAD: _with_rows(table, start.rows)})


def begin_with_rows(model: Any, start: VectorStart) -> None:
    """Sets the word embeddings of a new model, or those of its head if the head has its own.

    Args:
        model: model with an encoder. A decoder that shares the table begins with it, too.
        start: VectorStart with rows.
    """
    tables = {variable.path: variable for variable in model.weights}
    table = tables[_TABLE_OF_HEAD if _TABLE_OF_HEAD in tables else _TABLE]
    table.assign(_with_rows(table.numpy(), start.rows))


def _with_rows(table, rows):
    """The rows, and below them the rest of a table with more rows than the vocabulary has pieces. No text reads it."""
    return np.concatenate([rows, table[len(rows) :]])
