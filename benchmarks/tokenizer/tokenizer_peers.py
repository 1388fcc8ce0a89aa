"""What the tokenizer benchmarks share: text by lines and Hugging Face's tokenizer.

Run as a script by another interpreter, it serves google-research/bert's FullTokenizer to tokenizer_speed.py, which is
why only Python's own modules are imported at the top.
"""

import json
import os
import sys
import time

MAX_CHARACTERS_PER_WORD = 200  # google-research/bert's; tokenizers' own default is 100


def read_lines(patterns, max_megabytes=None):
    """The lines of text files as they stand, markup and empty lines too, without their line ends.

    Args:
        patterns: files, directories or globs. max_megabytes: stop there (10^6 bytes of UTF-8).

    Returns:
        list of str; invalid UTF-8 has become U+FFFD.

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


def hf_tokenizer(vocabulary, do_lower_case):
    """tokenizers.BertWordPieceTokenizer's parts, with BERT's limit of 200 characters a word.

    No special token is registered, so that a literal "[MASK]" is ordinary text as in google-research/bert.
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


def _serve_full_tokenizer():
    """One JSON line in, one out: first vocab_file, do_lower_case and lines; then, for each empty line, the seconds.

    The first answer holds the ids of each line.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what TensorFlow prints is no answer
    sys.path[0] = ""  # not benchmarks/
    from absl import flags
    from bert import tokenization

    flags.FLAGS([""])  # the tokenizer reads preserve_unused_tokens, which is off
    request = json.loads(sys.stdin.readline())
    tokenizer = tokenization.FullTokenizer(request["vocab_file"], do_lower_case=request["do_lower_case"])

    def tokenize():
        return [tokenizer.convert_tokens_to_ids(tokenizer.tokenize(line)) for line in request["lines"]]

    print(json.dumps(tokenize()), file=answers, flush=True)
    while sys.stdin.readline():
        started = time.perf_counter()
        tokenize()
        print(time.perf_counter() - started, file=answers, flush=True)


if __name__ == "__main__":
    _serve_full_tokenizer()
