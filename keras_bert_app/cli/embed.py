"""Computes a vector for each line of a file, in the order of the lines.

python -m keras_bert_app.cli.embed --saved_model=saved_models/vectors --input_file=texts.txt --output_file=texts.npy
python -m keras_bert_app.cli.embed --init_checkpoint=MODEL --layer=-1 --input_file=x.jsonl.gz --output_file=x.tsv

Every line gives a row, even an empty line. X.npy is an array [texts, size]; --dtype makes it smaller. X.tsv has a line
of numbers for each text.
"""

import os
import sys

from absl import flags

from keras_bert_app.cli.common import app, input_files, output_files, pooling_flags, written_places
from keras_bert_app.errors import UserError, nearest
from keras_bert_app.vectors import text_sources
from pipelines.text.text_files import ReaderCounts

_SAVED_MODEL = flags.DEFINE_string("saved_model", "", "An export of embeddings, with or without its version number.")
_INIT_CHECKPOINT = flags.DEFINE_string(
    "init_checkpoint", "", "Instead of --saved_model: a model in any layout that convert reads."
)
_POOLING_FLAGS = pooling_flags.define()
flags.DEFINE_string("input_file", "", "File of texts, one a line or JSON lines, plain or .gz.")
_INPUT_FORMAT = flags.DEFINE_string("input_format", "auto", "Format of the texts: auto (by the name), lines or jsonl.")
_TEXT_FIELD = flags.DEFINE_string("text_field", "text", "The field of JSON lines that holds the text.")
flags.DEFINE_string("output_file", "", "File for the vectors: X.npy or X.tsv.")
written_places.define_overwrite()
_PROMPT = flags.DEFINE_string(
    "prompt", None, "Prompt before each text: query, document, or another name of a prompt of the model."
)
_DTYPE = flags.DEFINE_string(
    "dtype", "float32", "Numbers of X.npy: float32, float16, int8, or binary (one bit, the sign)."
)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Texts embedded at a time.", lower_bound=1)


def main(arguments: list[str]) -> None:
    input_file, output_file = app.required("input_file", "output_file")
    _check_flags(input_file, output_file)
    source, counts = (input_file, _INPUT_FORMAT.value, _TEXT_FIELD.value), ReaderCounts()
    # This first pass counts the texts, and reveals a fault in the last line before hours of work.
    num_texts, work = text_sources.count_work(text_sources.read_texts(*source, counts))
    if not num_texts:
        raise UserError(f"{input_file}: has no text, not even an empty line; give a file with one text a line")
    with app.quiet_start():
        from keras_bert_app.terminal.progress import Progress
        from keras_bert_app.vectors import vector_files
    embed, remarks = _with_prompt(_embedder())
    output_files.make_place_for(output_file, "output_file")
    progress = Progress("texts", num_texts, work, sys.stdout)
    vectors = vector_files.write_vectors(
        embed, text_sources.read_texts(*source), num_texts, output_file, _BATCH_SIZE.value, progress.done, _DTYPE.value
    )
    rate = num_texts / progress.end()
    kind = "" if _DTYPE.value == "float32" else f" ({_DTYPE.value})"
    print(f"{output_file}: {num_texts:,} vectors of {vectors.size} numbers{kind}, {rate:,.0f} texts/s")
    for line in [*text_sources.remarks(counts, vectors.truncated), *remarks]:
        print(line)


def _check_flags(input_file, output_file):
    if bool(_SAVED_MODEL.value) == bool(_INIT_CHECKPOINT.value):
        raise UserError(
            "--saved_model and --init_checkpoint were both given; give one of them"
            if _SAVED_MODEL.value
            else "--saved_model is missing; give an export of embeddings, or a model as --init_checkpoint"
        )
    given = [flag.name for flag in _POOLING_FLAGS if flag.present]
    if _SAVED_MODEL.value and given:
        raise UserError(f"--{given[0]} goes with --init_checkpoint; the export {_SAVED_MODEL.value} has its own")
    if not output_file.endswith((".npy", ".tsv")):
        raise UserError(f"--output_file={output_file}: give a name that ends in .npy (for numpy) or .tsv (text)")
    from keras_bert_app.vectors.compact_vectors import DTYPES

    if _DTYPE.value not in DTYPES:
        raise UserError(f"--dtype={_DTYPE.value} is not known: {nearest(_DTYPE.value, DTYPES)}")
    if _DTYPE.value != "float32" and not output_file.endswith(".npy"):
        raise UserError(f"--dtype={_DTYPE.value} goes with .npy; {output_file} holds float32 only")
    if os.path.realpath(input_file) == os.path.realpath(output_file):
        raise UserError(
            f"--output_file={output_file}: is the --input_file, whose texts would be lost; give another name"
        )
    input_files.check_regular("input_file", input_file)
    written_places.check_new([output_file], "output_file")


def _embedder():
    from keras_bert_app.vectors import embedding

    if _SAVED_MODEL.value:
        return embedding.load_embedder(_SAVED_MODEL.value)
    from keras_bert_app.export.sentence_vectors import embedding_module

    module, _ = embedding_module(_INIT_CHECKPOINT.value, pooling_flags.pooling(_POOLING_FLAGS), print)
    return embedding.embedder_of_module(module)


def _with_prompt(embed):
    """Returns (the Embedder with the prompt of --prompt, remarks)."""
    prompts, model = embed.prompts, _SAVED_MODEL.value or _INIT_CHECKPOINT.value
    if _PROMPT.value is not None:
        return embed.with_prompt(prompts.of_name(_PROMPT.value, f"--prompt={_PROMPT.value}", model)), []
    if not prompts.named:
        return embed, []
    used = f"the default prompt {prompts.default[:40]!r}" if prompts.default else "no prompt"
    return embed, [f"{model} has {prompts.words()}; {used} was put before the texts; --prompt chooses one"]


if __name__ == "__main__":
    app.run(main, __doc__, writes={"output_file": ""})
