"""inspect_data as a user runs it: a run, a corpus, starting positions, and every wrong flag."""

import dataclasses
import itertools
import json
import re

import numpy as np
import pytest

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.inspection import source as sources
from keras_bert_app.runs import checkpoint_manifests, work_directory
from keras_bert_app.runs.work_directory import ExistingRun
from keras_bert_app.training import pretraining_data
from pipelines import BertTokenizer
from pipelines.corpus import preparation
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES
from tests.cli.test_commands import assert_refused
from tests.cli.test_vocab_commands import start

WORDS = "the cat sat on a mat and dogs ran far over green hills while rain fell cold night came".split()
VOCABULARY = "".join(f"{piece}\n" for piece in (*SPECIAL_PIECES, ".", "##s", *WORDS))
RUN = PretrainingConfig(max_seq_length=29, global_batch_size=8, masking="whole_word", seed=3).resolved()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two corpora, vocab.txt, phrases.txt, run/ with a manifest of step 7, and the position after 9 steps."""
    folder = tmp_path_factory.mktemp("my data")
    generator = np.random.RandomState(1)
    for name, size in (("corpus", 60), ("other", 30)):
        documents = [
            [" ".join(generator.choice(WORDS, generator.randint(3, 9))) + "." for _ in range(generator.randint(2, 13))]
            for _ in range(size)
        ]
        preparation.prepare_corpus(str(folder / name), documents=iter(documents), num_shards=3)
    (folder / "vocab.txt").write_text(VOCABULARY)
    (folder / "phrases.txt").write_text("the cat\ngreen hills\n")
    configured = dataclasses.replace(RUN, corpus_dir=(str(folder / "corpus"),))
    model_config = BertConfig.of_size("tiny", vocab_size=VOCABULARY.count("\n"))
    work_directory.write_config(str(folder / "run"), model_config, configured, VOCABULARY.encode())
    source = sources.from_run(str(folder / "run"))
    stream = sources.batches(source, sources.first_position(source), 0)
    positions = [position for _, position in itertools.islice(stream, 9)]
    (folder / "position_after_nine.txt").write_text(",".join(map(str, positions[8])))
    directory = folder / "run/checkpoints/step-00000007"
    directory.mkdir(parents=True)
    manifest = checkpoint_manifests.manifest_text({"step": 7, "position": positions[6], "files": {}})
    (directory / "manifest.json").write_text(manifest)
    return folder


def corpus_flags(folder, *more):
    return (
        "inspect_data",
        f"--corpus_dir={folder}/corpus",
        f"--vocab_file={folder}/vocab.txt",
        "--max_seq_length=29",
        "--global_batch_size=8",
        "--statistics_batches=9",
        *more,
    )


def examples_of(output):
    return output.split("\n\n")[1:]


def test_each_step_of_a_ramp_is_shown_with_its_own_number_of_rows(run, folder):
    result = run(
        *corpus_flags(folder, "--max_seq_length=32", "--batch_ramp_steps=6", "--length_ramp_steps=2", "--num=5"),
        "--statistics_batches=0",
    )
    assert result.returncode == 0, result.stderr
    # The batch ramp starts with one row, an eighth of 8. The length ramp divides the row length by 4, then by 2, and
    # multiplies the number of rows by the same factor.
    places = [re.search(r"step \d+, row \d+ of \d+", example)[0] for example in examples_of(result.stdout)[:5]]
    assert places == [f"step 1, row {row} of 4" for row in range(1, 5)] + ["step 2, row 1 of 2"]


def test_a_run_is_shown_exactly_as_its_trainer_gets_it(run, folder):
    result = run("inspect_data", f"--workdir={folder}/run", "--num=11", "--statistics_batches=0")
    assert result.returncode == 0 and result.stderr == "", result.stderr
    shown = examples_of(result.stdout)
    assert len(shown) == 11 and shown[8].startswith("step 2, row 1 of 8; ")
    configured = ExistingRun.read(folder / "run").config()[1]
    tokenizer = BertTokenizer(str(folder / "vocab.txt"))
    shards = [str(path) for path in sorted((folder / "corpus").glob("train-*"))]
    arguments = pretraining_data.example_arguments(configured, tokenizer, str(folder / "run"))
    dataset = pretraining_data.training_dataset(configured, [shards], tokenizer, None, arguments)
    batch = [batch for batch, _ in dataset.take(2)][1]
    for label in batch["masked_lm_ids"][0].numpy()[batch["masked_lm_weights"][0].numpy() > 0]:
        assert f"→{tokenizer.vocabulary[label]}]" in shown[8] or f"[={tokenizer.vocabulary[label]}]" in shown[8]
    assert f"{int(batch['input_mask'][0].numpy().sum())} tokens" in " ".join(shown[8].split())


def test_a_step_shows_the_examples_of_its_position_with_and_without_a_checkpoint(run, folder):
    def shown(*flags):
        result = run("inspect_data", f"--workdir={folder}/run", "--num=3", "--statistics_batches=0", *flags)
        assert result.returncode == 0, result.stderr
        # Line breaks move when the name of the directory is longer or shorter.
        return [" ".join(text.split()).split("; ", 1)[1] for text in examples_of(result.stdout)]

    manifest = folder / "run/checkpoints/step-00000007/manifest.json"
    manifest_text = manifest.read_text()
    after_nine = shown("--step=9")  # from the checkpoint of step 7
    position = (folder / "position_after_nine.txt").read_text()
    assert shown(f"--position={position}") == after_nine
    manifest.unlink()
    (folder / "run/checkpoints/step-00000007").rmdir()
    try:
        assert shown("--step=9") == after_nine  # without the checkpoint, inspect_data counts from step 0
    finally:
        manifest.parent.mkdir()
        manifest.write_text(manifest_text)


@pytest.mark.parametrize(
    "flags, parts",
    [
        (["--sentence_objective=sop", "--masking=span"], ["A and B swapped"]),
        pytest.param(["--sentence_objective=none", "--masking=segmented"], ["one segment"], marks=pytest.mark.slow),
        (
            [
                "--masking=lexicon",
                "--lexicon_file={folder}/phrases.txt",
                "--corpus_dir={folder}/corpus,{folder}/other",
                "--num=0",
            ],
            ["hidden", "72 examples in 9 batches", "% {folder}/corpus", "% {folder}/other"],
        ),
    ],
)
def test_every_kind_of_example_is_shown_and_counted(run, folder, flags, parts):
    result = run(*corpus_flags(folder, *(flag.format(folder=folder) for flag in flags)))
    assert result.returncode == 0, result.stderr
    for part in parts:
        assert part.format(folder=folder) in " ".join(result.stdout.split())
    assert "[MASK] without a label 0" in " ".join(result.stdout.split()) and "\x1b" not in result.stdout


def test_whole_words_of_chinese_text_without_spaces_are_advised_against(run, folder, tmp_path):
    documents = [[f"他们在北京大学学习{chr(0x4E00 + i)}。", "后来他们去了上海。"] for i in range(20)]
    preparation.prepare_corpus(str(tmp_path / "zh"), documents=documents)
    flags = f"--corpus_dir={tmp_path}/zh", "--masking=whole_word", "--num=0", "--statistics_batches=0"
    result = run(*corpus_flags(folder, *flags))
    assert result.returncode == 0
    assert "--masking=whole_word hides Chinese characters one by one" in result.stderr
    assert "--segmenter=jieba and take --masking=segmented" in result.stderr


def test_statistics_and_their_picture_are_written(run, folder, tmp_path):
    result = run(*corpus_flags(folder, f"--output_dir={tmp_path}/new/report", "--color=always"))
    assert result.returncode == 0 and "\x1b[" in result.stdout, result.stderr
    output = " ".join(re.sub(r"\x1b\[\d*m", "", result.stdout).split())
    for part in ("9 batches", "B random", "[MASK] without a label 0"):
        assert part in output
    statistics = json.loads((tmp_path / "new/report/statistics.json").read_text())
    assert statistics["examples"] == 72 and statistics["settings"]["max_seq_length"] == 29
    assert (tmp_path / "new/report/statistics.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "flags, parts",
    [
        (["--corpus_dir="], ["no data were named", "--workdir"]),
        (["--workdir={folder}/run"], ["--workdir and --corpus_dir were both given"]),
        (["--vocab_file="], ["--vocab_file is missing"]),
        (["--vocab_file={folder}/none.txt"], ["none.txt"]),
        (["--corpus_dir={folder}/none"], ["--corpus_dir={folder}/none", "does not exist"]),
        (["--corpus_dir={folder}/run"], ["manifest.json"]),
        (["--corpus_dir={folder}/corpus,{folder}/corpus"], ["names a directory twice"]),
        (["--masking=word"], ["--masking=word", "whole_word"]),
        (["--masking=lexicon"], ["--lexicon_file"]),
        (["--masking=lexicon", "--lexicon_file={folder}/none"], ["--lexicon_file={folder}/none", "does not exist"]),
        (["--max_predictions_per_seq=30"], ["--max_predictions_per_seq=30", "--max_seq_length=29"]),
        (["--num=-1"], ["num", "-1"]),
        (["--num=some"], ["num", "some"]),
        (["--color=blue"], ["color", "blue"]),
        (["--step=-1"], ["step", "-1"]),
        (["--step=1", "--position=0,0,0"], ["--step and --position"]),
        (["--position=0,0"], ["--position=0,0", "epoch,block,offset"]),
        (["--position=0,x,0"], ["--position=0,x,0", "whole numbers"]),
        (["--position=0,3,0"], ["block 3", "less than 3"]),
        (["--statistics_batches=0", "--output_dir=x"], ["--output_dir", "--statistics_batches"]),
        (["surplus"], ["unexpected argument 'surplus'"]),
    ],
)
def test_a_wrong_flag_gives_one_line_and_exit_code_2(run, folder, flags, parts):
    result = run(*corpus_flags(folder, *(flag.format(folder=folder) for flag in flags)))
    assert_refused(result, *(part.format(folder=folder) for part in parts))


@pytest.mark.parametrize(
    "flags, parts",
    [
        (["--workdir={folder}/corpus"], ["{folder}/corpus", "holds no run"]),
        (["--masking=span"], ["masking=whole_word", "--masking=span"]),
        (["--vocab_file={folder}/vocab.txt"], ["--vocab_file does not go with --workdir"]),
        (["--nodo_lower_case"], ["--do_lower_case does not go with --workdir"]),
    ],
)
def test_a_flag_that_contradicts_the_run_is_refused(run, folder, flags, parts):
    result = run("inspect_data", f"--workdir={folder}/run", *(flag.format(folder=folder) for flag in flags))
    assert_refused(result, *(part.format(folder=folder) for part in parts))


def test_another_corpus_than_the_run_began_with_is_refused(run, folder):
    note = folder / "run/corpus.json"
    note.write_text(json.dumps({"shards": [["train-00000-of-00003.tfrecord", "0" * 64]]}))
    try:
        assert_refused(run("inspect_data", f"--workdir={folder}/run"), "another corpus")
    finally:
        note.unlink()


@pytest.mark.slow
def test_inspect_data_ends_quietly_when_its_reader_leaves(folder):
    process = start(*corpus_flags(folder, "--num=5000"))
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=120) == 0 and process.stderr.read() == b""
    process.stderr.close()
