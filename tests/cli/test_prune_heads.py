"""The convert command that leaves out attention heads."""

import pytest

from keras_bert_app.interop import load
from tests.interop.conftest import CONFIGS, make_weights


@pytest.fixture
def source(tmp_path):
    load.write_weights(make_weights(CONFIGS["three_layers"]), "workdir", str(tmp_path / "whole"))
    return tmp_path / "whole"


def test_a_model_is_written_without_the_heads_that_the_flag_names(run, source, tmp_path):
    target = tmp_path / "pruned"
    result = run("convert", f"--input={source}", "--to=workdir", f"--output={target}", "--prune_heads=0:1;2:2,0")
    assert result.returncode == 0 and "heads 9 -> 6: by layer 2, 3, 1" in result.stdout
    assert load.load_pretrained(target).config.head_counts == (2, 3, 1)


@pytest.mark.parametrize("text", ["0", "0:", "0:1,", "a:1", "0:-1", ":1"])
def test_heads_that_are_not_written_as_expected_are_named(run, source, text):
    result = run("convert", f"--input={source}", f"--prune_heads={text}")
    assert result.returncode == 2 and "is no LAYER:HEAD,HEAD; expected such as 0:1,3;2:5" in result.stderr
    assert len(result.stderr.splitlines()) == 1
