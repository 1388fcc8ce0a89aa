"""Scores the search of a model on a collection in BEIR's layout, beside BM25 and with a reranker.

python -m keras_bert_app.cli.evaluate_search --data_dir=scifact --saved_model=saved_models/vectors \\
    --output_file=scores.json
python -m keras_bert_app.cli.evaluate_search --data_dir=scifact --rerank=runs/reranker

--data_dir has corpus.jsonl, queries.jsonl and qrels/test.tsv. --baseline is another model, such as the untrained start.
With --rerank, a run of finetune --task=rerank orders the first texts of the last ranking before it: that of the model,
or without one that of BM25. --save_rankings keeps the rankings in TREC's format, and --rankings scores such files of
this or of any other program.
"""

import json
import os
import sys
import tempfile

from absl import flags

from keras_bert_app.cli.common import app, output_files, written_places
from keras_bert_app.errors import UserError, nearest
from pipelines import storage

flags.DEFINE_string("data_dir", "", "Folder with corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv.")
_SPLIT = flags.DEFINE_string("split", "test", "Name of the file of grades in qrels, without its ending.")
flags.DEFINE_string(
    "saved_model",
    "",
    "An export of embeddings, or a model in any layout that embed reads. Not needed with --rerank on top of BM25.",
)
_BASELINE = flags.DEFINE_string("baseline", "", "Another model to compare with, such as the untrained start.")
_DTYPES = flags.DEFINE_list(
    "dtypes", [], "Smaller types of embed --dtype, such as int8,binary: a row for each; binary is also rescored."
)
_BM25 = flags.DEFINE_bool("bm25", True, "Whether to score BM25, too (pip install -r requirements-search.txt).")
_RERANK = flags.DEFINE_string(
    "rerank", "", "A run of finetune --task=rerank, or its export, on top of --saved_model, or of BM25 without a model."
)
_RERANK_COUNT = flags.DEFINE_integer("rerank_count", 100, "How many texts of a query --rerank scores.", lower_bound=1)
_RANKINGS = flags.DEFINE_list("rankings", [], "Files in TREC's format of runs: rankings to compare with.")
_SAVE_RANKINGS = flags.DEFINE_string("save_rankings", "", "Folder for the new rankings, a file NAME.trec for each.")
_OUTPUT_FILE = flags.DEFINE_string("output_file", "", "JSON file for the scores and their intervals.")
written_places.define_overwrite()
_RERANKED = "reranked"


def main(arguments: list[str]) -> None:
    (data_dir,) = app.required("data_dir")
    saved_model = flags.FLAGS["saved_model"].value
    _check_rerank(saved_model)
    if _OUTPUT_FILE.value:
        output_files.make_place_for(_OUTPUT_FILE.value, "output_file")
        written_places.check_new([_OUTPUT_FILE.value], "output_file")
    from keras_bert_app.vectors import ranking_files, search_collections, word_search
    from keras_bert_app.vectors.compact_vectors import kinds_of

    if _BASELINE.value and os.path.realpath(_BASELINE.value) == os.path.realpath(saved_model):
        raise UserError(f"--baseline={_BASELINE.value}: is also --saved_model; give another model, or leave it out")
    ranking_paths = ranking_files.named(_RANKINGS.value)
    models = {path: _smaller_types(path, saved_model) for path in (_BASELINE.value, saved_model) if path}
    kinds = [_kind(path, kind) for path, dtypes in models.items() for kind in kinds_of(dtypes)]
    names = _names(["BM25"] * _BM25.value + kinds, ranking_paths)
    if _BM25.value:
        word_search.check_installed()
    collection = search_collections.read(data_dir, _SPLIT.value)
    print(f"{data_dir}: {len(collection.ids):,} texts, {len(collection.queries):,} queries of {_SPLIT.value}")
    if _SAVE_RANKINGS.value:
        ranking_files.check_ids([*collection.queries, *collection.ids])
    with app.quiet_start():
        from keras_bert_app.tasks import search_scores
        from keras_bert_app.vectors import rerankers, search_evaluation
        from keras_bert_app.vectors.text_embedder import embedder_of
    reranker = rerankers.load_reranker(_RERANK.value) if _RERANK.value else None
    embedders = {path: embedder_of(path) for path in models}
    rankings = {name: ranking_files.read(path, list(collection.queries)) for name, path in ranking_paths.items()}
    count = max(search_scores.LONGEST, _RERANK_COUNT.value if reranker else 0)
    if _BM25.value:
        rankings[names["BM25"]] = search_evaluation.rankings_of_words(collection, count)
    for path, embed in embedders.items():
        with tempfile.TemporaryDirectory() as directory:
            found = search_evaluation.rankings_of_model(embed, collection, directory, count, sys.stderr, models[path])
        rankings |= {names[_kind(path, kind)]: ranking for kind, ranking in found.items()}
    if reranker:
        first, name = list(rankings)[-1], names[_RERANKED]
        rankings[name] = search_evaluation.reranked(
            reranker, collection, rankings[first], _RERANK_COUNT.value, sys.stderr
        )
        for line in reranker.remarks():
            print(line, file=sys.stderr)
    scores = {name: search_scores.of_queries(found, collection.judged) for name, found in rankings.items()}
    results = search_evaluation.compared(scores)
    print("\n".join(search_evaluation.table(results)))
    if _OUTPUT_FILE.value:
        figures = {"data_dir": data_dir, "split": _SPLIT.value, "queries": len(collection.queries), "scores": results}
        storage.write_whole(_OUTPUT_FILE.value, json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
        print(f"wrote {_OUTPUT_FILE.value}")
    for name in names.values() if _SAVE_RANKINGS.value else ():
        ranking_files.write(_saved(name), rankings[name], name)
        print(f"wrote {_saved(name)}")


def _check_rerank(saved_model):
    if not saved_model and not (_RERANK.value and (_BM25.value or _RANKINGS.value) and not _BASELINE.value):
        app.required("saved_model")
    if _DTYPES.value and not saved_model:
        raise UserError(f"--dtypes={','.join(_DTYPES.value)}: has an effect only with --saved_model; leave it out")
    if flags.FLAGS["rerank_count"].present and not _RERANK.value:
        raise UserError(f"--rerank_count={_RERANK_COUNT.value}: has an effect only with --rerank; leave it out")


def _smaller_types(path, saved_model):
    """The types of --dtypes for --saved_model, and none for --baseline."""
    from keras_bert_app.vectors.compact_vectors import DTYPES

    dtypes = list(dict.fromkeys(_DTYPES.value)) if path == saved_model else []
    for dtype in dtypes:
        if dtype not in DTYPES[1:]:
            raise UserError(f"--dtypes={','.join(dtypes)}: {dtype!r} is not known: {nearest(dtype, DTYPES[1:])}")
    return dtypes


def _kind(path, kind):
    return path if kind == "float32" else f"{path} {kind}"


def _names(given, taken):
    """dict BM25, a kind of a model or _RERANKED -> name of its ranking, which no file of --rankings has."""
    names = {path: path for path in given}
    if _RERANK.value:
        first = (given or list(taken))[-1]
        names[_RERANKED] = f"{first}, reranked by {_RERANK.value}"
    names = {key: f"{name} (new)" if name in taken else name for key, name in names.items()}
    if _SAVE_RANKINGS.value:
        written_places.check_new([_saved(name) for name in names.values()], "save_rankings")
        storage.make_directories(_SAVE_RANKINGS.value)
    return names


def _saved(name):
    from keras_bert_app.vectors import ranking_files

    return os.path.join(_SAVE_RANKINGS.value, ranking_files.file_name(name))


if __name__ == "__main__":
    app.run(main, __doc__, writes={"output_file": ""})
