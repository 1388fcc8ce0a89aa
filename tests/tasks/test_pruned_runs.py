"""Fine-tuned runs without some attention heads: answers, scores, export, and further training."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.export import saved_models
from keras_bert_app.export.finetuned_export import export_finetuned, is_finetuned
from keras_bert_app.interop import load
from keras_bert_app.modeling.encoder import gated_heads
from keras_bert_app.runs import checkpoints
from keras_bert_app.tasks import finetuning_start, pruned_runs
from keras_bert_app.tasks.scoring import FinetunedRun


@pytest.fixture(scope="module")
def pruned(finished, tmp_path_factory):
    """(work directory, log lines) of the run of `finished` without head 1 of layer 0. No test may change it."""
    directory = str(tmp_path_factory.mktemp("pruned") / "run")
    return directory, pruned_runs.write(finished[0], {0: [1]}, directory)


def test_a_pruned_run_answers_as_the_whole_run_with_the_same_heads_closed(finished, pruned):
    whole, smaller = FinetunedRun(finished[0]), FinetunedRun(pruned[0])
    assert smaller.model.config.head_counts == (1,) and smaller.model.count_params() < whole.model.count_params()
    assert (smaller.run, smaller.labels, smaller.task) == (whole.run, whole.labels, whole.task)
    examples = whole.task.read_split(whole.run.data_dir, "dev", whole.run)
    open_logits = whole.logits(examples)
    with gated_heads(whole.model.encoder, [tf.constant([1.0, 0.0])]):
        closed_logits = FinetunedRun.logits(_without_calls(whole), examples)
    np.testing.assert_allclose(smaller.logits(examples), closed_logits, atol=1e-5)
    assert np.abs(closed_logits - open_logits).max() > 1e-3


def _without_calls(run):
    run._calls.clear()  # a function that was traced earlier has no gates
    return run


def test_pruning_reports_its_changes_and_keeps_the_best_weights(finished, pruned):
    best = checkpoints.best_checkpoints(finished[0])[-1]
    assert pruned[1][0].startswith(f"workdir {best}: ") and pruned[1][1] == "heads 2 -> 1: by layer 1"
    step = checkpoints.read_manifest(best)["step"]
    assert checkpoints.best_checkpoints(pruned[0]) == [f"{pruned[0]}/checkpoints/best-{step:08d}"]
    assert is_finetuned(pruned[0])


def test_pruning_keeps_values_tuned_on_dev_and_drops_scores(finished, tmp_path, monkeypatch):
    monkeypatch.setattr(pruned_runs.results, "tuned", lambda workdir: {"null_score_diff_threshold": -1.5})
    pruned_runs.write(finished[0], {0: [0]}, str(tmp_path / "run"))
    values = json.loads((tmp_path / "run" / "config.json").read_text())
    assert values["finetuning"]["null_score_diff_threshold"] == -1.5 and values["pruned_from"] == finished[0]
    assert values["num_heads_by_layer"] == [1] and not (tmp_path / "run" / "results.json").exists()


def test_the_best_of_several_seeds_is_pruned(finished, tmp_path):
    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds" / "seed-3").symlink_to(finished[0])
    (tmp_path / "seeds" / "results.json").write_text(
        json.dumps(
            {
                "metric": "accuracy",
                "runs": [{"seed": 2, "best": {"score": 0.5}}, {"seed": 3, "best": {"score": 0.75}}],
            }
        )
    )
    pruned_runs.write(str(tmp_path / "seeds"), {0: [0]}, str(tmp_path / "run"))
    assert json.loads((tmp_path / "run" / "config.json").read_text())["pruned_from"] == str(
        tmp_path / "seeds" / "seed-3"
    )


def test_the_export_of_a_pruned_run_has_its_classifier(pruned, tmp_path):
    _, ids_export = export_finetuned(pruned[0], str(tmp_path / "out"))
    ids = tf.constant([[2, 7, 8, 3]])
    inputs = {"input_word_ids": ids, "input_mask": tf.ones_like(ids), "input_type_ids": tf.zeros_like(ids)}
    loaded = saved_models.load(ids_export)
    expected = tf.nn.softmax(FinetunedRun(pruned[0]).model(inputs)["logits"])
    np.testing.assert_allclose(loaded.signatures["serving_default"](**inputs)["probabilities"], expected, atol=1e-6)


def test_a_pruned_run_cannot_resume_but_is_a_valid_start(pruned, table_dir):
    with pytest.raises(UserError, match="such a run cannot be continued; train it with --init_checkpoint="):
        finetuning_start.launch(pruned[0], {"task": "classification", "data_dir": table_dir})
    # A complete command is refused, too, although the directory has no checkpoint to resume from.
    with pytest.raises(UserError, match="such a run cannot be continued"):
        finetuning_start.launch(
            pruned[0], {"task": "classification", "data_dir": table_dir}, 1, (pruned[0], True, None, None)
        )
    weights, _ = load.load_weights(pruned[0], allow_missing=("masked_lm", "next_sentence"))
    assert (
        weights.config.head_counts == (1,)
        and weights.task == "sequence_classification"
        and weights.labels == ("0", "1")
    )


@pytest.mark.parametrize(
    "heads, message", [({0: [0, 1]}, "layer 0 would have none left"), ({1: [0]}, "there is no layer 1")]
)
def test_invalid_heads_are_refused_before_anything_is_written(finished, heads, message, tmp_path):
    with pytest.raises(UserError, match=message):
        pruned_runs.write(finished[0], heads, str(tmp_path / "run"))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UserError, match="is there already"):
        (tmp_path / "there").write_text("x")
        pruned_runs.write(finished[0], {0: [0]}, str(tmp_path / "there"))
