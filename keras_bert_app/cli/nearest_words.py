"""Shows the nearest words of words and analogies in a file of word vectors, and scores analogies.

python -m keras_bert_app.cli.nearest_words --vectors_file=vectors.txt king "man:king::woman:?"
python -m keras_bert_app.cli.nearest_words --vectors_file=vectors.txt --analogies_file=questions-words.txt

The file has GloVe's or word2vec's text format, as learn_vectors and fastText (.vec) write them. The answer of an
analogy a:b::c:? is the word that is nearest to b - a + c. A word that the file lacks is looked up in lower case, too.
"""

import json
import os
import sys

from absl import flags

from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError, nearest
from keras_bert_app.terminal import text_columns

flags.DEFINE_string("vectors_file", "", "File of word vectors, plain or gzip.")
_ANALOGIES_FILE = flags.DEFINE_string(
    "analogies_file", "", "Analogies to score, in the format of word2vec's questions-words.txt."
)
_TOP_K = flags.DEFINE_integer("top_k", 10, "How many words are shown for a query.", lower_bound=1)
_FIRST_WORDS = flags.DEFINE_integer(
    "first_words", 0, "Use only the first words of the file, which are the most frequent ones; 0: all.", lower_bound=0
)
_UNKNOWN = flags.DEFINE_string(
    "unknown_vectors",
    "none",
    "Vector of a query's word that the file lacks: none (an error), that of all unknown words (unk), of its shape "
    "class (shape) or of its character n-grams (characters).",
)
_OUTPUT_FORMAT = flags.DEFINE_string("output_format", "table", "table or jsonl.")
_CHOICES = {"unknown_vectors": ("none", "unk", "shape", "characters"), "output_format": ("table", "jsonl")}


def main(arguments: list[str]) -> None:
    (vectors_file,) = app.required("vectors_file")
    for name, choices in _CHOICES.items():
        if flags.FLAGS[name].value not in choices:
            raise UserError(
                f"--{name}={flags.FLAGS[name].value} is not known: {nearest(flags.FLAGS[name].value, choices)}"
            )
    if bool(arguments) == bool(_ANALOGIES_FILE.value):
        raise UserError(
            "words and --analogies_file were both given; give one of them"
            if arguments
            else "no word was given; write it after the flags: nearest_words --vectors_file=FILE king, or give "
            "--analogies_file=FILE"
        )
    if _ANALOGIES_FILE.value and flags.FLAGS["unknown_vectors"].present:
        raise UserError("--unknown_vectors is for words; analogies of a file with an unknown word are skipped")
    if _ANALOGIES_FILE.value and flags.FLAGS["top_k"].present:
        raise UserError("--top_k is for words; the nearest word alone answers an analogy of a file, so leave it out")
    with app.quiet_start():
        from keras_bert_app.vectors import word_relations
        from keras_bert_app.vectors.static import word_vector_files
    # Python passes arguments that are not UTF-8 as surrogates.
    queries = [word_relations.parse_query(os.fsencode(text).decode("utf-8", "replace")) for text in arguments]
    sections = word_relations.read_questions(_ANALOGIES_FILE.value) if _ANALOGIES_FILE.value else {}
    known = word_relations.with_first_words(word_vector_files.read_word_vectors(vectors_file), _FIRST_WORDS.value)
    if known.num_duplicates:
        print(f"{known.num_duplicates:,} lines repeat a word; its first line counts", file=sys.stderr)
    if sections:
        scores = word_relations.score_questions(sections, known)
        is_table = _OUTPUT_FORMAT.value == "table"
        lines = word_relations.table(scores) if is_table else [_json(score.figures()) for score in scores]
        print("\n".join(lines))
        return
    found = word_relations.neighbours(queries, known, _TOP_K.value, _UNKNOWN.value)
    for text, neighbours in zip(arguments, found, strict=True):
        sys.stdout.write(_shown(text, neighbours))


def _shown(query, neighbours):
    """The query, and a line for each neighbour: its cosine, its place in the file from 1, and the word."""
    query = os.fsencode(query).decode("utf-8", "replace")
    if _OUTPUT_FORMAT.value == "jsonl":
        nearest_words = [{"word": each.word, "rank": each.rank, "cosine": round(each.cosine, 6)} for each in neighbours]
        return _json({"query": query, "nearest": nearest_words}) + "\n"
    rows = [f"  {each.cosine:6.3f}  {each.rank:>9,}  {text_columns.printable(each.word)}" for each in neighbours]
    return "\n".join([text_columns.printable(query), *rows]) + "\n"


def _json(values):
    return json.dumps(values, ensure_ascii=False)


if __name__ == "__main__":
    app.run(main, __doc__, is_listing=True, takes_arguments=True)
