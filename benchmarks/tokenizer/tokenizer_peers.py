"""Reads lines of text and makes Hugging Face's tokenizer, for the tokenizer benchmarks."""

MAX_CHARACTERS_PER_WORD = 200  # the limit of google-research/bert; the default of tokenizers is 100


def read_lines(patterns, max_megabytes: float | None = None) -> list[str]:
    """The lines of text files without their line ends, including markup and empty lines.

    Invalid UTF-8 becomes U+FFFD.

    Args:
        patterns: files, directories or globs.
        max_megabytes: float. Most text to read, in 10^6 bytes of UTF-8; None for all of it.

    Raises:
        DataError: a pattern matches nothing, or a file cannot be read.
    """
    from pipelines.text import text_files

    lines, bytes_left = [], float("inf") if max_megabytes is None else max_megabytes * 1e6
    for path in text_files.expand_files(patterns):
        with text_files.open_text(path) as stream, text_files.readable(path):
            for line in stream:
                bytes_left -= len(line)
                if bytes_left < 0:
                    return lines
                lines.append(line.rstrip(b"\r\n").decode("utf-8", "replace"))
    return lines


def hf_tokenizer(vocabulary: list[str], do_lower_case: bool):
    """A tokenizers.Tokenizer with the parts of BertWordPieceTokenizer.

    A word has at most 200 characters, as in BERT. No special token is registered. A literal "[MASK]" is therefore
    ordinary text, as in google-research/bert.

    Args:
        vocabulary: list of str. The pieces.
        do_lower_case: bool. Whether the vocabulary is uncased.
    """
    import tokenizers

    model = tokenizers.models.WordPiece(
        {piece: i for i, piece in enumerate(vocabulary)},
        unk_token="[UNK]",
        max_input_chars_per_word=MAX_CHARACTERS_PER_WORD,
    )
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=do_lower_case)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return tokenizer
