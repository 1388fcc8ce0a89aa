"""No command writes inside an export, a run or a corpus, or replaces files without permission."""

import ast
import json
import os
import pathlib
import runpy

import pytest

from keras_bert_app.cli.common import written_places
from keras_bert_app.cli.common.written_places import CORPUS, EXPORT, RUN
from tests.cli.test_commands import ROOT, VERBS, assert_refused

# Flags that name an output in every command, and pairs (command, flag) that name an output of this command.
_OUTPUTS = {"output_dir", "output_file", "words_file", "export_dir", "output"}
_OUTPUTS_BY_COMMAND = {
    ("learn_vocab", "vocab_file"),
    ("pretrain", "workdir"),
    ("finetune", "workdir"),
    ("demo", "workdir"),
}


def flags_of(verb):
    """The flags that the source of a command defines with a literal name."""
    tree = ast.parse((ROOT / "keras_bert_app" / "cli" / f"{verb}.py").read_text(encoding="utf-8"))
    return {
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr.startswith("DEFINE_")
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }


WRITING = sorted(
    (verb, flag) for verb in VERBS for flag in flags_of(verb) if flag in _OUTPUTS or (verb, flag) in _OUTPUTS_BY_COMMAND
)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A directory with an export of two versions, a run, a run of several seeds and a corpus."""
    top = tmp_path_factory.mktemp("my places")
    files = {
        "saved/mine/1/saved_model.pb": b"graph",
        "saved/mine/2/saved_model.pb": b"graph",
        "run/config.json": b'{"vocab_sha256": "0"}',
        "run/checkpoints/step-00000003/manifest.json": b"{}",
        "seeds/results.json": b"{}",
        "seeds/seed-1/config.json": b'{"vocab_sha256": "0"}',
        "corpus/manifest.json": b"{}",
        "corpus/train-00000-of-00001.tfrecord": b"",
    }
    for name, content in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(content)
    return top


def content_of(directory):
    return {path: path.read_bytes() for path in sorted(pathlib.Path(directory).rglob("*")) if path.is_file()}


def test_every_command_that_writes_declares_its_output_flags():
    assert len(WRITING) >= 17
    for verb in {verb for verb, _ in WRITING}:
        tree = ast.parse((ROOT / "keras_bert_app" / "cli" / f"{verb}.py").read_text(encoding="utf-8"))
        (declared,) = (
            {key.value for key in keyword.value.keys}
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "app.run"
            for keyword in node.keywords
            if keyword.arg == "writes"
        )
        assert declared == {flag for writing_verb, flag in WRITING if writing_verb == verb}, verb


@pytest.mark.parametrize("verb, flag", WRITING)
def test_every_command_refuses_to_write_inside_an_export_a_run_or_a_corpus(run, places, verb, flag):
    before = content_of(places)
    for place, kind in (
        ("saved/mine/1/deep/new", EXPORT),
        ("saved/mine/new", EXPORT),
        ("run/new.npy", RUN),
        ("run/checkpoints/new", RUN),
        ("seeds/new", RUN),
        ("corpus/new.tsv", CORPUS),
    ):
        refused = run(verb, f"--{flag}={places}/{place}")
        assert_refused(refused, f"--{flag}={places}/{place}: lies in ", f", which is {kind}")
    assert content_of(places) == before


def test_an_export_into_a_version_is_refused_with_the_directory_of_the_versions(run, places, monkeypatch):
    monkeypatch.chdir(places)
    for version in ("1", "2/", "3"):  # version 3 does not exist yet
        refused = run("export", "--workdir=run", f"--export_dir=saved/mine/{version}")
        assert_refused(refused, "an export", "give --export_dir=saved/mine for the next version")
    (places / "mine_ids").symlink_to(places / "run")
    assert_refused(run("export", "--workdir=run", "--export_dir=mine"), "--export_dir=mine: is a run")
    (places / "mine_ids").unlink()


def test_a_flag_may_name_a_new_place_or_a_place_of_its_own_kind(places):
    check_place = written_places._check_place
    check_place(str(places / "saved" / "mine"), "x", EXPORT)
    check_place(str(places / "run"), "x", RUN)
    check_place(str(places / "seeds"), "x", RUN)
    check_place(str(places / "seeds" / "seed-1"), "x", RUN)  # the run of one seed may continue
    check_place(str(places / "corpus"), "x", CORPUS)  # prepare_corpus itself refuses a complete corpus
    for kind in (EXPORT, RUN, CORPUS, ""):
        check_place(str(places / "new" / "place"), "x", kind)
    assert [written_places.kind_of(str(places / name)) for name in ("saved/mine/1", "seeds", "corpus", "saved")] == [
        EXPORT,
        RUN,
        CORPUS,
        "",
    ]


def test_single_runs_in_sibling_directories_named_as_seeds_are_no_run_of_several_seeds(tmp_path):
    (tmp_path / "seed-1").mkdir()
    (tmp_path / "seed-1" / "config.json").write_text('{"vocab_sha256": "0"}')
    written_places._check_place(str(tmp_path / "seed-2"), "x", RUN)
    written_places._check_place(str(tmp_path / "answers"), "x", "")


def test_a_link_into_an_export_is_followed(run, places, tmp_path):
    (tmp_path / "link").symlink_to(places / "saved" / "mine" / "1")
    assert_refused(run("predict", f"--output_dir={tmp_path}/link/answers"), "which is an export")


@pytest.mark.parametrize("verb", ["pretrain", "finetune"])
@pytest.mark.parametrize("name", ["metrics.jsonl", "curves.png", "results.json", "checkpoints/mine.txt"])
def test_a_new_run_is_refused_where_it_would_overwrite_files_that_belong_to_no_run(run, tmp_path, verb, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    assert_refused(run(verb, f"--workdir={tmp_path}"), f"holds {name.split('/')[0]} but no config.json of a run")
    assert (tmp_path / name).read_text() == "mine"


@pytest.mark.parametrize(
    "verb, flags, name",
    [
        ("learn_vocab", ["--input_files={0}/text.txt", "--vocab_file={0}/out/v.txt"], "v.txt"),
        (
            "extend_vocab",
            ["--vocab_file={0}/vocab.txt", "--input_files={0}/text.txt", "--output_file={0}/out/v.txt"],
            "v.txt",
        ),
        (
            "extend_vocab",
            [
                "--vocab_file={0}/vocab.txt",
                "--input_files={0}/text.txt",
                "--output_file={0}/out/new.txt",
                "--words_file={0}/out/words.tsv",
            ],
            "words.tsv",
        ),
        (
            "check_vocab",
            ["--vocab_file={0}/vocab.txt", "--input_files={0}/text.txt", "--output_dir={0}/out"],
            "report.png",
        ),
        (
            "inspect_data",
            ["--corpus_dir={0}/text.txt", "--vocab_file={0}/vocab.txt", "--output_dir={0}/out"],
            "statistics.json",
        ),
        ("embed", ["--saved_model=x", "--input_file={0}/text.txt", "--output_file={0}/out/v.npy"], "v.npy"),
        ("estimate", ["--config=tiny", "--hardware=v5e-8", "--output_file={0}/out/e.json"], "e.json"),
        ("evaluate", ["--workdir=x", "--output_dir={0}/out"], "scores.json"),
        ("predict", ["--workdir=x", "--input_file=x", "--output_dir={0}/out"], "predictions.tsv"),
        ("predict", ["--workdir=x", "--input_file=x", "--output_dir={0}/out"], "MNLI-mm.tsv"),
        ("predict", ["--workdir=x", "--text=x", "--output_dir={0}/out"], "answers.jsonl"),
        ("analyze", ["--what=attention", "--init_checkpoint=x", "--text=x", "--output_dir={0}/out"], "report.html"),
        ("analyze", ["--what=attention", "--init_checkpoint=x", "--text=x", "--output_dir={0}/out"], "attention.json"),
        ("prepare_corpus", ["--input_files={0}/text.txt", "--output_dir={0}/out"], "report.txt"),
        ("convert", ["--input=x", "--to=workdir", "--output={0}/out"], "notes.txt"),
    ],
)
def test_no_command_replaces_an_existing_file(run, texts, tmp_path, verb, flags, name):
    for file in ("text.txt", "vocab.txt"):
        (tmp_path / file).write_bytes((texts / file).read_bytes())
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("mine")
    if verb == "convert":
        flags = [f"--input={ROOT}/tests/golden/huggingface_files/pretraining", *flags[1:]]
    result = run(verb, *(flag.format(tmp_path) for flag in flags))
    assert result.returncode == 2 and "already" in result.stderr and result.stderr.count("\n") == 1, result.stderr
    assert (tmp_path / "out" / name).read_text() == "mine" and os.listdir(tmp_path / "out") == [name]


def test_overwrite_replaces_an_existing_file(run, tmp_path):
    path = tmp_path / "estimate.json"
    path.write_text("mine")
    flags = ("estimate", "--config=tiny", "--hardware=v5e-8", "--num_train_steps=9", f"--output_file={path}")
    assert_refused(run(*flags), f"{path} is there already; --overwrite replaces it")
    assert run(*flags, "--overwrite").returncode == 0 and json.loads(path.read_text())["num_devices"] == 8


def test_an_analysis_may_replace_only_files_that_an_earlier_analysis_lists(tmp_path, monkeypatch):
    from absl import flags

    before = set(flags.FLAGS)
    try:
        files_of_others = runpy.run_module("keras_bert_app.cli.analyze")["_files_of_others"]
    finally:
        for name in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, name)
    (tmp_path / "attention.json").write_text('{"files": ["attention.html"]}')
    for name in ("attention.html", "attention_words.png", "report.html", "surprise.png"):
        (tmp_path / name).touch()
    assert files_of_others(str(tmp_path), ["attention"]) == [str(tmp_path / "attention_words.png")]
    assert files_of_others(str(tmp_path), ["surprise", "attention"]) == [
        str(tmp_path / "attention_words.png"),
        str(tmp_path / "surprise.png"),
    ]
    (tmp_path / "attention.json").write_text("[]")
    assert len(files_of_others(str(tmp_path), ["attention"])) == 4


def test_answer_flags_knows_the_answer_files_of_every_task():
    from keras_bert_app.cli.common import answer_flags
    from keras_bert_app.tasks import registry

    names = {name for task in registry.TASKS.values() for name in task.answer_files.values()}
    assert names <= answer_flags._SERVER_FILES
