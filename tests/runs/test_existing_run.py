"""The state of a work directory is read once and equals the state that was written."""

import json
import os
import shutil

import pytest

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.runs import work_directory
from keras_bert_app.runs.work_directory import ExistingRun

CONFIG = BertConfig.of_size("tiny", vocab_size=7)
RUN = PretrainingConfig(learning_rate=3e-4, num_train_steps=77)
VOCABULARY = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n"


@pytest.fixture
def workdir(tmp_path):
    directory = str(tmp_path / "run")
    work_directory.write_config(directory, CONFIG, RUN, VOCABULARY, {"labels": ["x"]})
    return directory


def test_a_missing_directory_has_no_run(tmp_path):
    existing = ExistingRun.read(str(tmp_path / "nothing"))
    assert not existing.is_started and not existing.has_begun and existing.unfinished == ()


def test_a_run_is_read_as_it_was_written(workdir):
    existing = ExistingRun.read(workdir)
    assert existing.is_started and not existing.has_begun
    assert existing.config() == (CONFIG, RUN) and existing.values["labels"] == ["x"]
    assert existing.vocabulary() == VOCABULARY


def test_checkpoints_are_listed_in_the_order_of_their_steps_and_unfinished_ones_separately(workdir):
    for name in ("step-00000100", "step-00000020", "step-100000000", "best-00000020", "writing-step-00000200", "other"):
        os.makedirs(os.path.join(workdir, "checkpoints", name))
    existing = ExistingRun.read(workdir)
    names = [os.path.basename(path) for path in existing.checkpoints]
    assert names == ["step-00000020", "step-00000100", "step-100000000"]
    assert [os.path.basename(path) for path in existing.unfinished] == ["writing-step-00000200"]


def test_later_changes_of_the_directory_do_not_change_the_state_that_was_read(workdir):
    existing = ExistingRun.read(workdir)
    os.makedirs(os.path.join(workdir, "checkpoints", "step-00000001"))
    assert not existing.has_begun and ExistingRun.read(workdir).has_begun


def test_a_run_of_another_kind_is_refused(workdir):
    with pytest.raises(UserError, match="has no key 'finetuning', so it is not a run"):
        ExistingRun.read(workdir).config(FinetuningConfig)


@pytest.mark.parametrize(
    "content, message", [(None, "is missing; put back the vocabulary"), (b"[PAD]\n", "is not the vocabulary that")]
)
def test_a_missing_or_different_vocabulary_is_refused(workdir, content, message):
    path = os.path.join(workdir, "vocab.txt")
    os.remove(path)
    if content:
        with open(path, "wb") as file:
            file.write(content)
    with pytest.raises(UserError, match=message):
        ExistingRun.read(workdir).vocabulary()


def test_only_values_that_may_change_are_written_on_resume(workdir):
    existing = ExistingRun.read(workdir)
    _, run = existing.resumed(None, {"num_train_steps": 99})
    work_directory.rewrite_run(existing, run)
    with open(os.path.join(workdir, "config.json"), encoding="utf-8") as file:
        values = json.load(file)
    changed = {name for name, value in values["pretraining"].items() if value != existing.values["pretraining"][name]}
    assert changed == {"num_train_steps"} and values["labels"] == ["x"]


@pytest.mark.parametrize("before, after", [((), (1,)), ((1,), (1, 2)), ((1, 2), (2,))])
def test_a_checkpoint_that_appears_or_disappears_after_the_reading_is_noticed(workdir, before, after):
    def lay_out(steps):
        shutil.rmtree(os.path.join(workdir, "checkpoints"), ignore_errors=True)
        for step in steps:
            os.makedirs(os.path.join(workdir, "checkpoints", f"step-{step:08d}"))

    lay_out(before)
    existing = ExistingRun.read(workdir)
    existing.check_unchanged()
    lay_out(after)
    with pytest.raises(UserError, match="another run was at work; give the same command again"):
        existing.check_unchanged()
