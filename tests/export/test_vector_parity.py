"""The report about sentence vectors: against golden vectors in a stand-in process, and with a fault on either side."""

import json
import shutil

import numpy as np
import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.export import vector_parity
from keras_bert_app.interop import parity
from keras_bert_app.tasks.similarity_runs import own_steps
from tests.cli.conftest import run  # noqa: F401  a fixture
from tests.cli.test_commands import assert_refused
from tests.interop.test_parity import interpreter


@pytest.fixture
def known(golden, monkeypatch):
    """The folder "new" of sentence-transformers, with golden texts as the probe, and the library's vectors of them."""
    with np.load(golden / "sentence_transformers" / "vectors.npz") as stored:
        vectors = [stored[name] for name in ("new", "new/document", "new/query")]
        texts = stored["texts"].tolist()
    monkeypatch.setattr(vector_parity, "_texts", lambda module: texts)
    monkeypatch.setattr(vector_parity, "PACKAGE", "numpy")  # the stand-in's package
    return str(golden / "sentence_transformers" / "new"), vectors


def stand_in(directory, vectors):
    np.savez(directory / "known.npz", *vectors)
    return interpreter(
        directory,
        f"""
        import shutil

        def answer(request):
            assert request["prompt_names"] == ["document", "query"] and len(request["texts"]) == 4, request
            shutil.copy("{directory}/known.npz", request["outputs_file"])
            return {{}}
    """,
    )


def test_vectors_are_compared_for_each_prompt_to_1e_5(known, tmp_path):
    folder, vectors = known
    lines, is_same = vector_parity.check(folder, stand_in(tmp_path, vectors))
    assert is_same and lines[0] == f"sentence vectors of 4 texts compared with numpy {np.__version__}"
    assert [line.split()[0] for line in lines[2:5]] == ["vectors", "vectors_document", "vectors_query"]
    assert all(float(line.split()[1]) < 1e-6 and line.split()[2] == "1e-05" for line in lines[2:5])
    assert lines[5] == "parity: 3 outputs are the same within their limits"
    assert (tmp_path / "asked").read_text().endswith("huggingface/sentence_transformers_reference.py\n")
    swapped = [vectors[0], vectors[2], vectors[1]]
    lines, is_same = vector_parity.check(folder, stand_in(tmp_path, swapped))
    assert not is_same and lines[-1] == "parity: 2 of 3 outputs are not the same, first vectors_document"
    off = [vectors[0] + np.float32(2e-5), *vectors[1:]]
    assert not vector_parity.check(folder, stand_in(tmp_path, off))[1]


def test_an_interpreter_without_sentence_transformers_gives_one_line(golden, tmp_path, monkeypatch):
    folder = str(golden / "sentence_transformers" / "new")
    lines, is_same = vector_parity.check(folder, interpreter(tmp_path, "def answer(request): return {}"))
    assert is_same and len(lines) == 1 and "has no sentence-transformers; --reference_python with" in lines[0]
    monkeypatch.setattr(vector_parity, "_is_installed", lambda: False)
    lines, is_same = vector_parity.check(folder)
    assert is_same and "because this environment has no sentence-transformers" in lines[0]
    with pytest.raises(UserError, match=r"cannot be run \(No such file or directory\); expected an interpreter with"):
        vector_parity.check(folder, str(tmp_path / "nowhere"))


def test_convert_checks_the_vectors_of_a_folder_and_ends_with_1_if_they_differ(golden, tmp_path, monkeypatch, run):  # noqa: F811
    folder = tmp_path / "a folder"
    shutil.copytree(golden / "sentence_transformers" / "old", folder)
    compared = []

    def check_vectors(path, reference_python):
        compared.append((path, reference_python))
        return ["the report about vectors"], False

    monkeypatch.setattr(vector_parity, "check", check_vectors)
    monkeypatch.setattr(parity, "check", lambda *arguments: (["the report about layers"], True))
    done = run("convert", f"--input={folder}", "--check", "--reference_python=python")
    assert done.returncode == 1 and done.stdout.endswith("the report about layers\nthe report about vectors\n"), done
    assert compared == [(str(folder), "python")]  # the folder with modules.json, not that of the model
    (folder / "1_Pooling" / "config.json").write_text("{}")
    done = run("convert", f"--input={folder}", "--to=workdir", f"--output={tmp_path}/out")
    assert_refused(done, "1_Pooling/config.json: pools by nothing")


def test_convert_writes_the_steps_of_a_folder_again(golden, tmp_path, run):  # noqa: F811
    source, output = golden / "sentence_transformers" / "old", tmp_path / "written"
    done = run("convert", f"--input={source}", "--to=sentence_transformers", f"--output={output}")
    assert done.returncode == 0, done.stderr
    assert (
        "modules.json: cls_mean of the last layer; prompts query 'query: ', document 'text a: ', by def" in done.stdout
    )
    theirs, ours = own_steps(str(source)), own_steps(str(output))
    for name in ("pooling", "normalize", "max_seq_length", "prompts", "similarity", "lowers_case"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert (theirs.folder, ours.folder) == ("0_Transformer", "")


def test_a_written_folder_has_what_text_embeddings_inference_reads(golden, tmp_path, run):  # noqa: F811
    """The keys without a default in router/src/lib.rs and backends/candle/src/models/bert.rs (commit 0d124dc)."""
    source, output = golden / "sentence_transformers" / "new", tmp_path / "written"
    done = run("convert", f"--input={source}", "--to=sentence_transformers", f"--output={output}")
    assert done.returncode == 0, done.stderr
    config, pooling, lengths = (
        json.loads((output / name).read_text())
        for name in ("config.json", "1_Pooling/config.json", "sentence_bert_config.json")
    )
    required = "architectures model_type vocab_size hidden_size num_hidden_layers num_attention_heads hidden_act"
    required += " intermediate_size hidden_dropout_prob max_position_embeddings type_vocab_size initializer_range"
    required += " layer_norm_eps pad_token_id"
    assert not set(required.split()) - config.keys()
    assert config["architectures"] == ["BertModel"] and config["model_type"] == "bert"
    assert {type(pooling[f"pooling_mode_{mode}"]) for mode in ("cls_token", "mean_tokens")} == {bool}
    assert type(lengths["max_seq_length"]) is int
    assert (output / "tokenizer.json").is_file() and (output / "model.safetensors").is_file()
