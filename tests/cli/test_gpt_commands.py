"""Commands that know BERT alone, or options that a GPT has not, answer with one line."""

import json

import pytest

from keras_bert_app.interop import load
from tests.export.test_generation import GPT
from tests.training.conftest import CONFIG, write_workdir
from tests.training.test_language_model import CAUSAL


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    directory = tmp_path_factory.mktemp("my models")
    load.write_weights(GPT, "workdir", str(directory / "gpt"))
    (directory / "text.txt").write_text("a b\nc d\n")
    return directory


def assert_refused(done, message):
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_inspect_data_shows_masks_of_a_bert_alone(run, tmp_path):
    write_workdir(tmp_path / "run", CONFIG.replace(architecture="gpt"), CAUSAL)
    done = run("inspect_data", f"--workdir={tmp_path / 'run'}")
    assert_refused(done, "is a causal language model, which has no pairs and masks to show; give a run of a BERT")


def test_embed_refuses_the_vector_of_cls(run, gpt, tmp_path):
    files = f"--input_file={gpt / 'text.txt'}", f"--output_file={tmp_path / 'v.npy'}"
    for pooling in ("cls", "cls_mean"):
        done = run("embed", f"--init_checkpoint={gpt / 'gpt'}", f"--pooling={pooling}", *files)
        assert_refused(done, f"--pooling={pooling}: in a gpt [CLS] sees no text; give --pooling=mean or max")


def test_export_refuses_the_number_of_pieces_for_a_mask(run, gpt, tmp_path):
    done = run("export", f"--workdir={gpt / 'gpt'}", f"--export_dir={tmp_path / 'out'}", "--top_k=3")
    assert_refused(done, "--top_k: has no meaning for a GPT, which continues texts; leave it out")


@pytest.mark.parametrize(
    "flag, reason",
    [
        ("--is_causal=false", "a gpt is always causal and has no segments"),
        ("--type_vocab_size=3", "a gpt is always causal and has no segments"),
        ("--carry_state=false", "a gpt has no state"),
    ],
)
def test_pretrain_refuses_options_that_a_gpt_has_not(run, texts, tmp_path, flag, reason):
    files = (
        f"--input_files={texts / 'text.txt'}",
        f"--vocab_file={texts / 'vocab.txt'}",
        f"--workdir={tmp_path / 'run'}",
    )
    done = run("pretrain", "--config=tiny", "--architecture=gpt", "--language_model=causal", flag, *files)
    assert_refused(done, f"{flag.partition('=')[0]}: {reason}; leave")


def test_estimate_refuses_a_gpt(run, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(GPT.config.to_dict()))
    done = run("estimate", f"--config={tmp_path / 'config.json'}", "--hardware=a100")
    assert_refused(done, "is a gpt; estimate knows BERT alone, so give a bert")


def test_an_analysis_of_masked_words_refuses_a_gpt(run, gpt, tmp_path):
    (tmp_path / "pairs.tsv").write_text("a b\tb a\n")
    files = f"--pairs_file={tmp_path / 'pairs.tsv'}", f"--output_dir={tmp_path / 'out'}"
    done = run("analyze", "--what=minimal_pairs", f"--init_checkpoint={gpt / 'gpt'}", *files)
    assert_refused(done, "has no masked-LM head, which this analysis needs")
