"""GLUE's scores of stored answers against the metrics of transformers (tests/golden/generate_glue_scores.py)."""

import json
import pathlib

import pytest

from keras_bert_app.tasks import registry
from keras_bert_app.tasks.families.sequences import Example

GOLDEN = json.loads((pathlib.Path(__file__).parents[1] / "golden" / "glue_scores.json").read_text(encoding="utf-8"))
# NAMES maps the names of the reference to our names. MEANS are means of two metrics. Our tasks do not compute them.
NAMES = {
    "mcc": "matthews_correlation",
    "acc": "accuracy",
    "mnli/acc": "accuracy",
    "mnli-mm/acc": "accuracy",
    "f1": "f1",
    "pearson": "pearson",
    "spearmanr": "spearman",
}
MEANS = {"acc_and_f1", "corr"}


@pytest.mark.parametrize(
    "entry", GOLDEN["scores"], ids=lambda entry: f"{entry['task']}-{entry['kind'].replace(' ', '_')}"
)
def test_stored_answers_have_the_scores_that_the_reference_gives_them(entry):
    task = registry.find(entry["task"].removesuffix("-mm"))
    labels = task.labels
    examples = [
        Example(str(number), "a", None, labels[gold] if labels else gold, f"dev.tsv:{number}", "")
        for number, gold in enumerate(entry["gold"])
    ]
    answers = [
        {"label": labels[given], "probabilities": {}} if labels else {"value": given} for given in entry["given"]
    ]
    scores = task.family.score(task, examples, answers, labels)
    expected = {NAMES[name]: value for name, value in entry["scores"].items() if name not in MEANS}
    assert {name: scores[name] for name in expected} == pytest.approx(expected, abs=1e-12)
    assert next(iter(task.metrics)) in expected  # the metric that chooses the best weights


def test_the_reference_covers_every_task_of_glue():
    assert {entry["task"] for entry in GOLDEN["scores"]} == {
        "cola",
        "sst-2",
        "mrpc",
        "qqp",
        "sts-b",
        "mnli",
        "mnli-mm",
        "qnli",
        "rte",
        "wnli",
    }
