"""For flags and values of other tools, a command names its own flags and values."""

import pytest

from keras_bert_app.cli.common import foreign_flags
from keras_bert_app.cli.common.flag_groups import BY_VERB
from keras_bert_app.config.training_config import PRECISIONS, STRATEGIES
from tests.cli.test_commands import assert_refused


@pytest.mark.parametrize(
    "verb, flag, said",
    [
        ("pretrain", "--lr=1e-4", "here it is --learning_rate;"),
        ("finetune", "--lr=1e-4", "here it is --learning_rate;"),
        ("pretrain", "--batch_size=8", "here it is --global_batch_size;"),
        ("finetune", "--per_device_train_batch_size=8", "here it is --global_batch_size;"),
        ("finetune", "--epochs=3", "here it is --num_train_epochs;"),
        ("pretrain", "--epochs=3", "here it is --num_train_steps, a number of batches, not of passes;"),
        ("pretrain", "--output_dir=runs/x", "here it is --workdir;"),
        ("export", "--output_dir=saved/x", "here it is --export_dir;"),
        ("embed", "--output_dir=x", "here it is --output_file;"),
        ("finetune", "--fp16", "here it is --precision=auto;"),
        ("finetune", "--model_name_or_path=x", "here it is --init_checkpoint;"),
        ("finetune", "--gpus=2", "GPUs that TensorFlow sees are used automatically"),
        ("finetune", "--do_train", "finetune trains and scores"),
        ("search", "--init_checkpoint=x", "here it is --saved_model; export writes one;"),
        ("learn_vocab", "--force", "here it is --overwrite;"),
    ],
)
def test_a_flag_of_another_tool_is_refused_with_the_name_of_our_flag(run, verb, flag, said):
    name = flag.split("=")[0]
    refused = run(verb, flag)
    assert_refused(refused, f"error: {name} is not a flag of this command", said)
    assert ("--helpfull" if verb in BY_VERB else "--help") + " lists the flags" in refused.stderr


def test_a_flag_of_no_tool_is_refused_with_the_nearest_name(run):
    assert_refused(run("pretrain", "--lerning_rate=1"), "'lerning_rate'", "Did you mean: learning_rate")
    assert_refused(run("tokenize", "--lr=1"), "Unknown command line flag 'lr'")


@pytest.mark.parametrize(
    "flag, said",
    [
        ("--strategy=gpu", "GPUs that TensorFlow sees are used automatically (--strategy=auto, the default)"),
        ("--strategy=CPU", "CUDA_VISIBLE_DEVICES=-1 hides GPUs"),
        ("--precision=fp16", "here it is --precision=auto, which takes bfloat16 or float16"),
        ("--precision=bf16", "here it is --precision=bfloat16"),
    ],
)
def test_a_value_of_another_tool_is_refused_before_anything_is_read(run, flag, said):
    for verb in ("pretrain", "finetune", "predict"):
        assert_refused(run(verb, flag), f"error: {flag}: ", said)


def test_no_value_of_our_flags_counts_as_a_value_of_another_tool():
    own = {"strategy": STRATEGIES, "precision": PRECISIONS}
    for flag, values, _ in foreign_flags._VALUES:
        assert not set(values) & set(own[flag])
