"""Adds hard negatives to a table of pairs: texts of other pairs that a model takes for near ones.

python -m keras_bert_app.cli.mine_negatives --saved_model=saved_models/vectors --input_file=train.jsonl \\
    --output_file=train.mined.jsonl

For each anchor the command ranks the positives of all other anchors by their cosine. It skips the first --range_min and
all after --range_max. It takes the nearest --num_negatives whose cosine is at least --margin below that of the anchor's
positive. Texts of the anchor's own pairs are never negatives. finetune --task=similarity reads the output, beside a dev
file in the same folder.
"""

import os
import sys

from absl import flags

from keras_bert_app.cli.common import app, output_files, written_places
from keras_bert_app.errors import UserError
from keras_bert_app.vectors import text_sources
from pipelines import storage
from pipelines.plurals import counted
from pipelines.text.text_files import ReaderCounts

flags.DEFINE_string("saved_model", "", "An export of embeddings, or a model in any layout that embed reads.")
flags.DEFINE_string("input_file", "", "Table of pairs, as finetune --task=similarity reads it: .tsv, .csv or .jsonl.")
_TEXT_COLUMNS = flags.DEFINE_list(
    "text_columns", [], "Columns of the anchor, of its positive and perhaps of negatives, by name or by number from 0."
)
_HEADER = flags.DEFINE_enum("header", "auto", ("auto", "yes", "no"), "Whether line 1 of the table names its columns.")
_CORPUS_FILE = flags.DEFINE_string(
    "corpus_file", "", "More candidates beside the positives: one a line or JSON lines, plain or .gz."
)
_TEXT_FIELD = flags.DEFINE_string("text_field", "text", "The field of JSON lines of --corpus_file with the text.")
_NUM_NEGATIVES = flags.DEFINE_integer("num_negatives", 3, "The most new negatives of a pair.", lower_bound=1)
_RANGE_MIN = flags.DEFINE_integer(
    "range_min",
    10,
    "The number of nearest texts that are skipped: they may be answers that nobody marked.",
    lower_bound=0,
)
_RANGE_MAX = flags.DEFINE_integer("range_max", 50, "Texts after this rank are skipped.", lower_bound=1)
_MARGIN = flags.DEFINE_float(
    "margin",
    0.05,
    "The cosine of a negative is at least this much below that of the anchor's positive (absolute_margin in "
    "sentence-transformers); -2: no limit.",
    lower_bound=-2.0,
    upper_bound=2.0,
)
_SAMPLING = flags.DEFINE_enum(
    "sampling", "top", ("top", "random"), "Which texts of the range become negatives: the nearest, or random ones."
)
_SEED = flags.DEFINE_integer("seed", 12345, "Seed of --sampling=random.", lower_bound=0)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Texts embedded at a time.", lower_bound=1)
flags.DEFINE_string("output_file", "", "File for the pairs with all their negatives: X.jsonl.")
written_places.define_overwrite()


def main(arguments: list[str]) -> None:
    saved_model, input_file, output_file = app.required("saved_model", "input_file", "output_file")
    _check_flags(input_file, output_file)
    counts = ReaderCounts()
    with app.quiet_start():
        from keras_bert_app.config.finetuning_config import FinetuningConfig
        from keras_bert_app.tasks.hard_negatives import MiningOptions, pair_texts
        from keras_bert_app.tasks.readers import similarity
        from keras_bert_app.vectors import mined_rows
        from keras_bert_app.vectors.text_embedder import embedder_of
    run = FinetuningConfig(task="similarity", text_columns=tuple(_TEXT_COLUMNS.value), header=_HEADER.value)
    examples = similarity.read_pairs(input_file, run)
    pairs = pair_texts((example.texts for example in examples), _corpus(counts))
    print(f"{input_file}: {counted(len(examples), 'pair')}, {counted(len(pairs.candidates), 'candidate')}")
    options = MiningOptions(
        _NUM_NEGATIVES.value, _RANGE_MIN.value, _RANGE_MAX.value, _MARGIN.value, _SAMPLING.value, _SEED.value
    )
    embed = embedder_of(saved_model)
    output_files.make_place_for(output_file, "output_file")
    found, truncated = mined_rows.mined(embed, pairs, options, sys.stdout, _BATCH_SIZE.value)
    mined_rows.write_rows(output_file, examples, pairs, found)
    for line in (*examples.notes(), *text_sources.remarks(counts, truncated), *mined_rows.report(found)):
        print(line)
    print(f"wrote {output_file}")


def _check_flags(input_file, output_file):
    if not output_file.endswith(".jsonl"):
        raise UserError(f"--output_file={output_file}: give a name that ends in .jsonl")
    for name in ("input_file", "corpus_file"):
        if os.path.realpath(flags.FLAGS[name].value) == os.path.realpath(output_file):
            raise UserError(
                f"--output_file={output_file}: is the --{name}, whose texts would be lost; give another name"
            )
    if _RANGE_MAX.value <= _RANGE_MIN.value:
        raise UserError(
            f"--range_max={_RANGE_MAX.value}: is not above --range_min={_RANGE_MIN.value}, so no text is in the range; "
            "give a larger --range_max, or a smaller --range_min"
        )
    for name, goes_with, is_given in (
        ("seed", "--sampling=random", _SAMPLING.value == "random"),
        ("text_field", "--corpus_file", bool(_CORPUS_FILE.value)),
    ):
        if flags.FLAGS[name].present and not is_given:
            raise UserError(f"--{name}={flags.FLAGS[name].value}: has a meaning only with {goes_with}; leave it out")
    if _CORPUS_FILE.value and not storage.is_file(_CORPUS_FILE.value):
        raise UserError(f"--corpus_file={_CORPUS_FILE.value}: there is no such file; give texts, one a line")
    written_places.check_new([output_file], "output_file")


def _corpus(counts):
    """Yields the texts of --corpus_file."""
    if _CORPUS_FILE.value:
        for text in text_sources.read_texts(_CORPUS_FILE.value, "auto", _TEXT_FIELD.value, counts):
            yield text.decode("utf-8", "replace")


if __name__ == "__main__":
    app.run(main, __doc__, writes={"output_file": ""})
