"""Scores the search of a model on a collection in BEIR's layout, beside BM25.

python -m keras_bert_app.cli.evaluate_search --data_dir=scifact --saved_model=saved_models/vectors \\
    --output_file=scores.json

--data_dir has corpus.jsonl, queries.jsonl and qrels/test.tsv. --baseline is another model, such as the untrained start.
"""

import json
import os
import sys
import tempfile

from absl import flags

from keras_bert_app.cli.common import app, output_files, written_places
from pipelines import storage

flags.DEFINE_string("data_dir", "", "Folder with corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv.")
_SPLIT = flags.DEFINE_string("split", "test", "Name of the file of grades in qrels, without its ending.")
flags.DEFINE_string("saved_model", "", "An export of embeddings, or a model in any layout that embed reads.")
_BASELINE = flags.DEFINE_string("baseline", "", "Another model to compare with, such as the untrained start.")
_BM25 = flags.DEFINE_bool("bm25", True, "Whether to score BM25, too (pip install -r requirements-search.txt).")
_OUTPUT_FILE = flags.DEFINE_string("output_file", "", "JSON file for the scores and their intervals.")
written_places.define_overwrite()


def main(arguments: list[str]) -> None:
    data_dir, saved_model = app.required("data_dir", "saved_model")
    if _OUTPUT_FILE.value:
        output_files.make_place_for(_OUTPUT_FILE.value, "output_file")
        written_places.check_new([_OUTPUT_FILE.value], "output_file")
    from keras_bert_app.vectors import search_collections, word_search

    if _BM25.value:
        word_search.check_installed()
    collection = search_collections.read(data_dir, _SPLIT.value)
    print(f"{data_dir}: {len(collection.ids):,} texts, {len(collection.queries):,} queries of {_SPLIT.value}")
    with app.quiet_start():
        from keras_bert_app.vectors import search_scores
        from keras_bert_app.vectors.search_evaluation import compared, rankings_of_model, table
    rankings = {}
    if _BM25.value:
        bm25 = word_search.rankings(collection.ids, collection.texts, collection.queries, search_scores.LONGEST)
        rankings["BM25"] = bm25
    for path in filter(None, (_BASELINE.value, saved_model)):
        with tempfile.TemporaryDirectory() as directory:
            file = os.path.join(directory, "corpus.npy")
            rankings[path] = rankings_of_model(path, collection, file, search_scores.LONGEST, sys.stderr)
    scores = {name: search_scores.of_queries(found, collection.judged) for name, found in rankings.items()}
    results = compared(scores)
    print("\n".join(table(results)))
    if _OUTPUT_FILE.value:
        figures = {"data_dir": data_dir, "split": _SPLIT.value, "queries": len(collection.queries), "scores": results}
        storage.write_whole(_OUTPUT_FILE.value, json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
        print(f"wrote {_OUTPUT_FILE.value}")


if __name__ == "__main__":
    app.run(main, __doc__, writes={"output_file": ""})
