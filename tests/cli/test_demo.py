"""The demo in a short run on the documentation of installed packages."""

import dataclasses
import itertools

import pytest

from keras_bert_app.cli.common import documentation_demo
from keras_bert_app.training import pretrain
from pipelines.text import installed_docs


@pytest.mark.long
def test_the_demo_reaches_its_end_and_a_second_start_trains_no_step_again(tmp_path, capfd, monkeypatch):
    settings = documentation_demo.DemoSettings(vocab_size=1500, holdout_fraction=0.2)
    settings = dataclasses.replace(
        settings,
        model=(*settings.model, ("num_hidden_layers", 1)),
        run=(
            *settings.run,
            ("num_train_steps", 30),
            ("num_warmup_steps", 5),
            ("length_ramp_steps", 0),  # otherwise TensorFlow traces a graph for each row length
            ("log_steps", 10),
        ),
    )
    modules = list(itertools.islice(installed_docs.installed_modules(), 150))
    workdir, export_dir = str(tmp_path / "work"), str(tmp_path / "saved_models" / "docs_bert")

    figures = documentation_demo.run_demo(workdir, export_dir, settings, sources=iter(modules))
    printed = capfd.readouterr().out
    for part in (
        "[1/5]",
        "[2/5]",
        "[3/5]",
        "step 30/30",
        "unigram",
        "majority share",
        "[5/5]",
        documentation_demo.SENTENCES[0],
    ):
        assert part in printed
    assert figures["eval_masked_lm_loss"] < 7.3 and figures["eval_next_sentence_count"] > 50  # ln(1500) is 7.31

    answered_exports = []
    # The first start drew the curves, and asked the model in a separate process.
    monkeypatch.setattr(pretrain, "_draw", lambda rows, title: b"")
    monkeypatch.setattr(documentation_demo, "answer", answered_exports.append)
    again = documentation_demo.run_demo(workdir, export_dir, settings, sources=iter([]))
    assert again["eval_loss"] == figures["eval_loss"] and answered_exports == [export_dir]
    assert "resumed at step 30" in capfd.readouterr().out
