"""WordPiece vocabularies: load and check, write, learn."""

import collections
import functools

from pipelines.errors import DataError

SPECIAL_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def read_bytes(path):
    """The bytes of a file, local or anything tf.io.gfile opens."""
    try:
        if "://" in str(path):
            import tensorflow as tf
            with tf.io.gfile.GFile(str(path), "rb") as file:
                return file.read()
        with open(path, "rb") as file:
            return file.read()
    except Exception as error:  # gfile raises its own families of errors
        raise DataError(f"vocabulary {path}: cannot be read ({type(error).__name__}); expected a text file "
                        "with one piece a line, as learn_vocab writes") from None


def load_vocabulary(path):
    """The pieces of a vocabulary file, in order of their ids.

    Lines end at "\\n" alone: Google's Chinese vocabulary has U+2028 as an entry.

    Raises:
        DataError: an empty, repeated, carriage-return or undecodable line, a special piece missing, or [PAD] not
            first; the message names the line numbers.
    """
    lines = read_bytes(path).split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    faults, first_line, pieces = [], {}, []
    for number, line in enumerate(lines, start=1):
        if not line:
            faults.append(f"line {number} is empty")
        elif line.endswith(b"\r"):
            faults.append(f"line {number} ends with a carriage return")
        try:
            piece = line.decode("utf-8")
        except UnicodeDecodeError:
            faults.append(f"line {number} is not UTF-8")
            piece = None
        if line and piece is not None and first_line.setdefault(piece, number) != number:
            faults.append(f"line {number} repeats line {first_line[piece]} ({piece!r})")
        pieces.append(piece)
    faults += [f"{special} is missing" for special in SPECIAL_PIECES if special not in first_line]
    if first_line.get("[PAD]", 1) != 1:
        faults.append(f"[PAD] stands in line {first_line['[PAD]']}, not in line 1 (id 0)")
    if faults:
        shown = "; ".join(faults[:5]) + (f"; and {len(faults) - 5} more" if len(faults) > 5 else "")
        raise DataError(f"vocabulary {path}: {shown}; expected one UTF-8 piece a line, each once, with [PAD] first "
                        "and [UNK], [CLS], [SEP], [MASK] among them (learn_vocab writes such a file)")
    return pieces


def write_vocabulary(pieces, path):
    """Writes one piece a line, under a temporary name first, so that no half file is ever read."""
    import tensorflow as tf
    temporary = f"{path}.tmp"
    with tf.io.gfile.GFile(str(temporary), "wb") as file:
        file.write("".join(f"{piece}\n" for piece in pieces).encode("utf-8"))
    tf.io.gfile.rename(str(temporary), str(path), overwrite=True)


def learn_vocabulary(text_batches, vocab_size, do_lower_case=True):
    """Learns WordPiece entries by byte-pair merging of the words that BERT's own normalization gives.

    The learner is the Rust trainer of the `tokenizers` library. BUILD.md has the comparison that chose it over
    keras_hub's, in pieces a word and time. The result is the same for the same text.

    Args:
        text_batches: iterable of string tensors [n] or lists of strings.
        vocab_size: the exact number of entries wanted, special pieces included.
        do_lower_case: whether to lower case and strip accents first.

    Returns:
        (pieces, words): list of vocab_size strings, and the number of words that they were learned from.

    Raises:
        DataError: the text has no words, or vocab_size has no room for its characters.
    """
    import tensorflow as tf
    import tokenizers

    words = collections.Counter()
    split = _word_splitter(do_lower_case)
    for texts in text_batches:
        words.update(split(tf.convert_to_tensor(texts, tf.string)).numpy().tolist())
    if not words:
        raise DataError("learn_vocab: the text holds no word; give files with text")
    num_words = sum(words.values())
    words = {word.decode("utf-8"): count for word, count in words.items()}
    room = vocab_size - len(SPECIAL_PIECES)
    # A character takes two entries: at the beginning of a word, and within one.
    alphabet = _alphabet(words, max(50, room * 3 // 8))
    if room < 2 * min(len(alphabet), 50):
        raise DataError(f"learn_vocab: vocab_size {vocab_size} has no room for the {len(alphabet)} characters of this "
                        f"text, which take two entries each; ask for {len(SPECIAL_PIECES) + 4 * len(alphabet)} or more")
    # A word with another character will be [UNK]; its parts teach nothing.
    words = {word: count for word, count in words.items() if alphabet.issuperset(word)}
    # The trainer numbers the inner characters in the order of a hash table unless it is told them; ties between merges
    # are broken by these numbers, so that the vocabulary would be another in every run.
    inner = [f"##{character}" for character in sorted({character for word in words for character in word[1:]})]
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=[*SPECIAL_PIECES, *inner], show_progress=False)
    learner = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    learner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    learner.train_from_iterator(_repeated(words), trainer)
    learned = learner.get_vocab()
    return _filled_up(sorted(learned, key=learned.get), words, vocab_size), num_words


@functools.cache
def _word_splitter(do_lower_case):
    """Strings [N] to all their words, as BERT's own normalization gives them."""
    import tensorflow as tf

    from pipelines import normalize
    return tf.function(lambda texts: tf.strings.split(normalize.space_out(texts, do_lower_case)).flat_values,
                       input_signature=[tf.TensorSpec([None], tf.string)])


def _alphabet(words, max_characters, coverage=0.9999):
    """The most frequent characters that make up that share of the text; the rest would crowd out words."""
    counts = collections.Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    wanted, covered, alphabet = coverage * sum(counts.values()), 0, set()
    for character, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if covered >= wanted or len(alphabet) >= max_characters:
            break
        alphabet.add(character)
        covered += count
    return alphabet


def _repeated(words, words_a_line=1000):
    """Lines in which each word stands as often as it was counted: the trainer counts them itself."""
    for word, count in sorted(words.items()):
        while count > 0:
            yield " ".join([word] * min(count, words_a_line))
            count -= words_a_line


def _filled_up(pieces, words, vocab_size):
    """Exactly vocab_size pieces: after the learned ones the most frequent whole words, then [unusedN]."""
    known = set(pieces)
    for word, _ in sorted(words.items(), key=lambda item: (-item[1], item[0])):
        if len(pieces) >= vocab_size:
            break
        if word not in known:
            pieces.append(word)
            known.add(word)
    unused = (f"[unused{i}]" for i in range(vocab_size))
    while len(pieces) < vocab_size:
        pieces.append(next(unused))
    return pieces[:vocab_size]
