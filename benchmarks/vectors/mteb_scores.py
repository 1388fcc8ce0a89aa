"""Scores of mteb with our load_embedder, beside those with sentence-transformers on the same folder.

MTEB_ENV/bin/python -m benchmarks.vectors.mteb_scores --model=MINILM

MTEB_ENV has benchmarks/requirements-mteb.txt: TensorFlow, sentence-transformers and mteb in one environment. The model
is a folder of sentence-transformers. The tasks are made up (mteb_tasks), so nothing is fetched. They run with the
folder as it is, and with a copy of the folder that has prompts for queries and documents, if it has none yet.

The table has the main score of each task. "largest difference" is over all scores that mteb computes for the task, such
as nDCG, MAP and recall at seven ranks, or the correlations with cosines and with two distances.
"""

import json
import logging
import math
import os
import shutil
import tempfile

from absl import flags

from benchmarks.common.report import in_words
from benchmarks.common.this_machine import machine
from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError
from pipelines import storage

_MODEL = flags.DEFINE_string("model", "", "A folder of sentence-transformers, such as all-MiniLM-L6-v2.")
_OUTPUT_FILE = flags.DEFINE_string("output_file", "", "JSON file for all scores.")
_SETTINGS = "config_sentence_transformers.json"
_PROMPTS = {"query": "query: ", "document": "passage: "}
_PACKAGES = ("tensorflow", "torch", "sentence-transformers", "mteb")
_IMPORTED = {"torch", "mteb", "sentence_transformers", "datasets"}


def main(arguments):
    del arguments
    (model,) = app.required("model")
    if not os.path.isfile(os.path.join(model, "modules.json")):
        raise UserError(f"--model={model}: has no modules.json; give a folder of sentence-transformers")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    logging.disable(logging.INFO)  # mteb describes each part of a task
    try:
        from benchmarks.vectors import mteb_tasks  # before TensorFlow: torch fails if TensorFlow is loaded first
    except ModuleNotFoundError as error:
        if error.name not in _IMPORTED:
            raise
        raise UserError(
            f"{error.name} is not installed; run the command in an environment with benchmarks/requirements-mteb.txt"
        ) from None
    tasks = (mteb_tasks.MadeUpRetrieval, mteb_tasks.MadeUpSimilarity)
    figures = {}
    with tempfile.TemporaryDirectory() as directory:
        for prompts, folder in folders_of(model, os.path.join(directory, "model")).items():
            for task in tasks:
                figures[f"{task.__name__}, {prompts}"] = scores_of_both(task, folder)
    print(f"\n{in_words(machine(_PACKAGES))}\n\n" + "\n".join(table(figures)))
    if _OUTPUT_FILE.value:
        storage.write_whole(_OUTPUT_FILE.value, json.dumps(figures, indent=1))


def folders_of(model: str, copy: str) -> dict[str, str]:
    """The folder itself, and a copy with prompts if the folder has none.

    Args:
        model: str. The folder.
        copy: str. The folder of the copy.

    Returns:
        dict. "no prompts", "prompts of the folder" or "query: and passage:" -> folder.
    """
    path = os.path.join(model, _SETTINGS)
    settings = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            settings = json.load(file)
    if any((settings.get("prompts") or {}).values()):
        return {"prompts of the folder": model}
    shutil.copytree(model, copy)
    storage.write_whole(os.path.join(copy, _SETTINGS), json.dumps({**settings, "prompts": _PROMPTS}))
    return {"no prompts": model, "query: and passage:": copy}


def scores_of_both(task: type, folder: str) -> dict:
    """Runs mteb on a task with both models.

    Args:
        task: a class of mteb_tasks.
        folder: str. The model.

    Returns:
        dict of main_score (its name), ours and theirs (name of a score -> value).
    """
    import mteb
    from sentence_transformers import SentenceTransformer

    from keras_bert_app import load_embedder

    def scores(model):
        done = mteb.evaluate(
            model, task(), cache=None, overwrite_strategy="always", show_progress_bar=False, co2_tracker=False
        )
        (result,) = done.task_results
        # Some scores of an area under a curve are not defined, because each query has the same recall.
        numbers = {name: value for name, value in result.scores["test"][0].items() if isinstance(value, float)}
        return {name: value for name, value in numbers.items() if not math.isnan(value)}

    return {
        "main_score": task.metadata.main_score,
        "ours": scores(load_embedder(folder)),
        "theirs": scores(SentenceTransformer(folder, device="cpu")),
    }


def table(figures: dict):
    """Yields the table in Markdown.

    Args:
        figures: dict. Task and prompts -> result of scores_of_both.
    """
    yield "| task | score | load_embedder | sentence-transformers | scores compared | largest difference |"
    yield f"|{'---|' * 6}"
    for task, figure in figures.items():
        ours, theirs, name = figure["ours"], figure["theirs"], figure["main_score"]
        if ours.keys() != theirs.keys():
            raise UserError(f"{task}: the scores {sorted(ours.keys() ^ theirs.keys())} are of one side only")
        largest = max(abs(ours[each] - theirs[each]) for each in ours)
        yield f"| {task} | {name} | {ours[name]:.6f} | {theirs[name]:.6f} | {len(ours)} | {largest:.1e} |"


if __name__ == "__main__":
    app.run(main, __doc__)
