"""Golden scores of answers to GLUE's tasks, computed with the metrics of transformers.

Reference: transformers 4.57.1, data/metrics/__init__.py, `glue_compute_metrics`, on scikit-learn and scipy. README.md
beside this file has the environment.

    python tests/golden/generate_glue_scores.py

The script writes glue_scores.json beside this file. The file has metadata and a row for each task and kind of answers:
"some right" and, for all tasks but sts-b, "one class for all". A row has the gold and the given answers (class indices
or numbers) and the scores under the reference's names.
"""

import json
import os
import random
import warnings
from importlib.metadata import version

from transformers import glue_compute_metrics

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "glue_scores.json")
VERSIONS = {"transformers": "4.57.1", "scikit-learn": "1.7.2", "scipy": "1.16.3"}
SEED, NUM_EXAMPLES = 7, 97
NUM_CLASSES = {"cola": 2, "sst-2": 2, "mrpc": 2, "qqp": 2, "mnli": 3, "mnli-mm": 3, "qnli": 2, "rte": 2, "wnli": 2}


def main():
    installed = {name: version(name) for name in VERSIONS}
    if installed != VERSIONS:
        raise SystemExit(f"reference versions are {installed}, expected {VERSIONS}")
    import numpy as np

    warnings.simplefilter("ignore")
    generator, rows = random.Random(SEED), []
    for task, classes in NUM_CLASSES.items():
        gold = [generator.randrange(classes) for _ in range(NUM_EXAMPLES)]
        right = [one if generator.random() < 0.7 else generator.randrange(classes) for one in gold]
        rows += [(task, "some right", gold, right), (task, "one class for all", gold, [classes - 1] * NUM_EXAMPLES)]
    gold = [round(generator.uniform(0, 5), 2) for _ in range(NUM_EXAMPLES)]
    gold[:10] = [2.5] * 10  # ties
    rows.append(("sts-b", "some right", gold, [one + generator.gauss(0, 1) for one in gold]))
    scores = [
        {
            "task": task,
            "kind": kind,
            "gold": gold,
            "given": given,
            "scores": {
                name: float(value)
                for name, value in glue_compute_metrics(task, np.array(given), np.array(gold)).items()
            },
        }
        for task, kind, gold, given in rows
    ]
    with open(PATH, "w", encoding="utf-8") as file:
        json.dump(
            {
                "metadata": {"reference": "transformers glue_compute_metrics", "versions": VERSIONS, "seed": SEED},
                "scores": scores,
            },
            file,
            indent=1,
        )
        file.write("\n")


if __name__ == "__main__":
    main()
