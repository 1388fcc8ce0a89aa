"""Draws a map of the vectors of a corpus: a page with the nearest texts of each text, and measures before and after.

python -m keras_bert_app.cli.map_vectors --saved_model=saved_models/vectors --corpus_file=texts.txt \\
    --output_file=map.html
python -m keras_bert_app.cli.map_vectors --saved_model=saved_models/pairs --baseline=MODEL --corpus_file=texts.txt \\
    --pairs_file=pairs/dev.tsv --output_file=map.html

The command writes the page X.html, which needs no network, and the picture X.png. --pairs_file is a table as for
finetune --task=similarity. Its pairs give the histogram of cosines and the alignment.
"""

import os
import sys

from absl import flags

from keras_bert_app.cli.common import app, input_files, output_files, written_places
from keras_bert_app.errors import UserError
from keras_bert_app.vectors import text_sources
from pipelines import storage
from pipelines.plurals import counted
from pipelines.text.text_files import ReaderCounts, open_text

flags.DEFINE_string("saved_model", "", "An export of embeddings, or a model in any layout that embed reads.")
_BASELINE = flags.DEFINE_string("baseline", "", "Another model to compare with, such as the untrained start.")
flags.DEFINE_string("corpus_file", "", "File of texts, one a line or JSON lines, plain or .gz.")
_INPUT_FORMAT = flags.DEFINE_string("input_format", "auto", "Format of the corpus: auto (by the name), lines or jsonl.")
_TEXT_FIELD = flags.DEFINE_string("text_field", "text", "The field of JSON lines that holds the text.")
_VECTORS = flags.DEFINE_string("vectors", "", "The .npy file that embed wrote for the corpus with --saved_model.")
_PAIRS_FILE = flags.DEFINE_string(
    "pairs_file", "", "Table of anchors and their positives, or of two texts and a score: .tsv, .csv or .jsonl."
)
_POSITIVE_SCORE = flags.DEFINE_float(
    "positive_score", None, "In --pairs_file with scores: the least score of texts that belong together."
)
_TEXT_COLUMNS = flags.DEFINE_list(
    "text_columns", [], "In --pairs_file: the two columns of texts, if they have other names."
)
_LABEL_COLUMN = flags.DEFINE_string("label_column", "label", "In --pairs_file: the column of scores.")
_HEADER = flags.DEFINE_enum("header", "yes", ["yes", "no"], "Whether line 1 of --pairs_file names its columns.")
_PROJECTION = flags.DEFINE_enum(
    "projection", "tsne", ["tsne", "pca"], "How the places are found: t-SNE, or principal components, which is faster."
)
_MAX_POINTS = flags.DEFINE_integer(
    "max_points", 5000, "The most texts of the map, and the most pairs; a sample is drawn of more.", 2, 5000
)
_OUTPUT_FILE = flags.DEFINE_string("output_file", "", "HTML file for the page. The picture is beside it, as .png.")
written_places.define_overwrite()
_OF_PAIRS = ("positive_score", "text_columns", "label_column", "header")


def main(arguments: list[str]) -> None:
    saved_model, corpus_file, output_file = app.required("saved_model", "corpus_file", "output_file")
    picture_file = output_file.removesuffix(".html") + ".png"
    _check_flags(saved_model, corpus_file, output_file, picture_file)
    counts = ReaderCounts()
    num_texts, _ = text_sources.count_work(_corpus(counts))
    if num_texts < 2:
        raise UserError(f"{corpus_file}: has {'one text alone' if num_texts else 'no text'}; a map needs two or more")
    with app.quiet_start():
        from keras_bert_app.drawing import vector_map_page
        from keras_bert_app.vectors import vector_maps
    pairs = _pairs()
    output_files.make_place_for(output_file, "output_file")
    rows = vector_maps.sampled_rows(num_texts, _MAX_POINTS.value)
    texts = _texts(rows)
    paths = list(filter(None, (_BASELINE.value, saved_model)))
    models = [_model_vectors(path, texts, rows, pairs, path == saved_model) for path in paths]
    for line in text_sources.remarks(counts, 0):
        print(f"{corpus_file}: {line}", file=sys.stderr)
    measured = vector_maps.measures(models, pairs.series if pairs else {})
    described = _described(texts, rows, models, measured)
    title = f"Vectors of {os.path.basename(corpus_file)}: {os.path.basename(os.path.normpath(saved_model))}"
    storage.write_whole(output_file, vector_map_page.vector_map_page(described, title, _notes(num_texts, len(texts))))
    storage.write_whole(picture_file, vector_map_page.draw_vector_map(described, title))
    print("\n".join(vector_maps.table(measured)))
    clusters = counted(len(described["typical"]), "cluster")
    print(f"{output_file}: {len(texts):,} of {num_texts:,} texts in {clusters}; {picture_file}")


def _check_flags(saved_model, corpus_file, output_file, picture_file):
    if not output_file.endswith(".html"):
        raise UserError(f"--output_file={output_file}: give a name that ends in .html")
    if _BASELINE.value and os.path.realpath(_BASELINE.value) == os.path.realpath(saved_model):
        raise UserError(f"--baseline={_BASELINE.value}: is also --saved_model; give another model, or leave it out")
    given = [name for name in _OF_PAIRS if flags.FLAGS[name].present]
    if given and not _PAIRS_FILE.value:
        raise UserError(f"--{given[0]} goes with --pairs_file; give a table of pairs, or leave it out")
    inputs = {"corpus_file": corpus_file, "pairs_file": _PAIRS_FILE.value, "vectors": _VECTORS.value}
    for name, path in inputs.items():
        if path and os.path.realpath(path) in map(os.path.realpath, (output_file, picture_file)):
            raise UserError(f"--output_file={output_file}: would replace the --{name} {path}; give another name")
    written_places.check_new([output_file, picture_file], "output_file")
    text_sources.format_of(corpus_file, _INPUT_FORMAT.value)
    input_files.check_regular("corpus_file", corpus_file)
    # This reports a wrong name before TensorFlow loads.
    if _PAIRS_FILE.value:
        with open_text(_PAIRS_FILE.value):
            pass


def _corpus(counts=None):
    return text_sources.read_texts(flags.FLAGS["corpus_file"].value, _INPUT_FORMAT.value, _TEXT_FIELD.value, counts)


def _texts(rows):
    texts = list(text_sources.texts_at(_corpus(), rows).values())
    if len(texts) < len(rows):
        raise UserError(
            f"{flags.FLAGS['corpus_file'].value}: lost texts since they were counted; give the command again when no "
            "program writes to it"
        )
    return texts


def _pairs():
    """The Pairs of --pairs_file, or None."""
    if not _PAIRS_FILE.value:
        return None
    from keras_bert_app.config.finetuning_config import FinetuningConfig
    from keras_bert_app.vectors import judged_pairs

    run = FinetuningConfig(
        task="similarity",
        text_columns=tuple(_TEXT_COLUMNS.value),
        label_column=_LABEL_COLUMN.value,
        header=_HEADER.value,
    )
    pairs = judged_pairs.read_pairs(_PAIRS_FILE.value, run, _POSITIVE_SCORE.value, _MAX_POINTS.value)
    counts = ", ".join(f"{len(rows):,} {name}" for name, rows in pairs.series.items())
    print(f"{_PAIRS_FILE.value}: {counts}")
    for line in pairs.remarks:
        print(f"{_PAIRS_FILE.value}: {line}")
    return pairs


def _model_vectors(path, texts, rows, pairs, is_saved_model):
    """The ModelVectors of a model. --vectors gives those of the texts for --saved_model."""
    import numpy as np

    from keras_bert_app.config.prompts import DOCUMENT
    from keras_bert_app.vectors import vector_files, vector_maps
    from keras_bert_app.vectors.embedding import for_role
    from keras_bert_app.vectors.nearest import check_vectors
    from keras_bert_app.vectors.text_embedder import embedder_of

    embed = embedder_of(path)
    of_corpus = for_role(embed, DOCUMENT)
    source, vectors = path, None
    if is_saved_model and _VECTORS.value:
        source, vectors = _VECTORS.value, vector_files.load_vectors(_VECTORS.value)
        check_vectors(vectors, _corpus(), of_corpus, source)
        vectors = vectors[rows]
    if vectors is None:
        vectors = _embedded(path, of_corpus, texts)
    of_pairs = np.zeros((0, vectors.shape[1]), np.float32)
    if pairs:
        of_pairs = np.zeros((len(pairs.texts), vectors.shape[1]), np.float32)
        for role in sorted(set(pairs.roles)):
            places = [place for place, its_role in enumerate(pairs.roles) if its_role == role]
            of_role = _embedded(path, for_role(embed, role), [pairs.texts[place].encode() for place in places])
            of_pairs[places] = of_role
    return vector_maps.ModelVectors(
        path,
        vector_maps.of_length_1(vectors, rows + 1, source),
        vector_maps.of_length_1(of_pairs, range(1, len(of_pairs) + 1), f"{path}, texts of {_PAIRS_FILE.value}"),
    )


def _embedded(path, embed, texts):
    """float32 [N, D]."""
    from keras_bert_app.terminal.progress import Progress
    from keras_bert_app.vectors.embedding import embed_texts

    progress = Progress(f"texts of {path}", len(texts), sum(map(text_sources.work_of, texts)), sys.stderr)
    vectors, truncated = embed_texts(embed, texts, done=progress.done)
    progress.end()
    for line in text_sources.remarks(ReaderCounts(), int(truncated.sum())):
        print(f"{path}: {line}", file=sys.stderr)
    return vectors


def _described(texts, rows, models, measured):
    from keras_bert_app.terminal.durations import duration
    from keras_bert_app.terminal.progress import LiveLine, shown_while
    from keras_bert_app.vectors import vector_maps

    line, shown = LiveLine(sys.stderr), [text.decode("utf-8", "replace") for text in texts]
    with shown_while(lambda seconds: line.show(lambda: f"places of {len(texts):,} texts {duration(seconds)}")):
        described = vector_maps.described(shown, rows + 1, models, measured, _PROJECTION.value)
    line.clear()
    return described


def _notes(num_texts, num_shown):
    """The sentences of the page about how the map was made."""
    place = (
        "t-SNE gives the places."
        if _PROJECTION.value == "tsne"
        else "The first two principal components give the places."
    )
    sample = f"The map has a sample of {num_shown:,} of {num_texts:,} texts." if num_shown < num_texts else ""
    colours = "Colours show the clusters of the vectors"
    colours += f" of {flags.FLAGS['saved_model'].value}." if _BASELINE.value else "."
    return [note for note in (place, colours, sample) if note]


if __name__ == "__main__":
    app.run(main, __doc__, writes={"output_file": ""})
