"""Options without an effect on a task are refused."""

import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import registry


@pytest.mark.parametrize(
    "task, settings, flag",
    [
        ("ner", {"pooling": "mean"}, "--pooling=mean"),
        ("ner", {"long_documents": "windows"}, "--long_documents=windows"),
        ("squad1", {"pooling": "max"}, "--pooling=max"),
        ("squad2", {"language": "de"}, "--language=de"),
        ("codah", {"long_documents": "head_tail"}, "--long_documents=head_tail"),
        ("dream", {"fold": 1}, "--fold=1"),
        ("sst-2", {"document_context": True}, "--document_context=True"),
        ("cola", {"text_columns": ("a", "b")}, "--text_columns=a,b"),
        ("mrpc", {"n_best_size": 3}, "--n_best_size=3"),
        ("reuters", {"label_column": "x"}, "--label_column=x"),
    ],
)
def test_an_option_that_the_task_does_not_read_is_refused_by_name(task, settings, flag):
    with pytest.raises(UserError, match=f"^{flag}: task {task} does not read it; leave it out$"):
        registry.find(task).check_options(FinetuningConfig(task=task, **settings))


@pytest.mark.parametrize(
    "task, settings",
    [
        ("ner", {"document_context": True, "label_column": "2", "doc_stride": 9}),
        ("xnli", {"language": "de"}),
        ("ner", {"encoder_layers": 0, "tag_scheme": "BIOES"}),
        ("mrpc", {"swap_pairs": True}),
        ("codah", {"fold": 3, "pooling": "mean"}),
        ("squad2", {"null_score_diff_threshold": 0.5, "doc_stride": 64}),
        ("multi_label", {"text_columns": ("a",), "label_column": "b", "long_documents": "windows", "max_windows": 3}),
        ("sst-2", {}),
    ],
)
def test_options_that_the_task_reads_are_accepted(task, settings):
    registry.find(task).check_options(FinetuningConfig(task=task, **settings))


@pytest.mark.parametrize(
    "task, settings, message",
    [
        ("squad1", {"null_score_diff_threshold": -2.0}, "task squad1 does not read it"),
        (
            "sst-2",
            {"max_windows": 3},
            "--max_windows=3: --long_documents=head has one row for each text; leave out --max_windows, or give "
            "--long_documents=windows or hierarchical",
        ),
        (
            "reuters",
            {"long_documents": "head_tail", "doc_stride": 64},
            "--doc_stride=64: --long_documents=head_tail has one row",
        ),
        ("sst-2", {"distillation_weight": 0.8}, "--distillation_weight=0.8: there is no --teacher to learn from"),
        (
            "sts-b",
            {"distillation_temperature": 3.0},
            "--distillation_temperature=3.0: there is no --teacher to learn from",
        ),
        (
            "sts-b",
            {"distillation_temperature": 3.0, "teacher": "x"},
            "task sts-b learns numbers, which have no temperature",
        ),
        ("xnli", {"swap_pairs": True}, "--swap_pairs: the answers of task xnli depend on the order"),
        (
            "rte",
            {"swap_pairs": True},
            "--swap_pairs: the answers of task rte depend on the order of the texts; leave it out",
        ),
    ],
)
def test_an_option_that_has_no_effect_with_the_other_options_is_refused(task, settings, message):
    with pytest.raises(UserError, match=message):
        registry.find(task).check_options(FinetuningConfig(task=task, **settings))


def test_gradual_unfreezing_is_refused_if_all_layers_stay_frozen():
    with pytest.raises(
        UserError, match="--gradual_unfreezing=40: with --freeze_layers=-1 no layer is trained; leave one of them out"
    ):
        FinetuningConfig(task="sst-2", gradual_unfreezing=40, freeze_layers=-1)


def test_a_finished_run_checks_only_the_options_of_the_command():
    run = FinetuningConfig(task="sst-2", max_windows=3, n_best_size=5)
    registry.find("sst-2").check_options(run, {"max_seq_length": 64})
    with pytest.raises(UserError, match="--n_best_size=5: task sst-2 does not read it; leave it out"):
        registry.find("sst-2").check_options(run, {"n_best_size": 5})


def test_a_run_that_only_a_time_limit_ends_is_scored_once_an_epoch():
    run = FinetuningConfig(num_train_epochs=0.0, train_minutes=30.0).resolved(steps_per_epoch=500)
    assert (run.eval_steps, run.save_checkpoints_steps, run.num_train_steps, run.num_warmup_steps) == (
        500,
        500,
        500,
        50,
    )
    assert FinetuningConfig(num_train_epochs=0.0, num_train_steps=20).resolved(500).eval_steps == 20


def test_every_task_reads_the_options_of_its_own_defaults():
    for task in registry.TASKS.values():
        task.check_options(FinetuningConfig(**{"task": task.name, **task.defaults}))


def test_several_steps_per_call_need_batches_of_one_length():
    with pytest.raises(UserError, match="--iterations_per_loop=4: batches of different lengths run one per call"):
        registry.find("sst-2").check_options(FinetuningConfig(iterations_per_loop=4))
    registry.find("sst-2").check_options(FinetuningConfig(iterations_per_loop=4, length_buckets=False))


def test_no_option_is_checked_if_the_command_gives_none():
    run = FinetuningConfig(distillation_weight=0.8)
    with pytest.raises(UserError, match="there is no --teacher"):
        registry.find("sst-2").check_options(run)
    registry.find("sst-2").check_options(run, ())
