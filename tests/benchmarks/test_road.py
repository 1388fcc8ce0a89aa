"""The road's table: each row is a finetune command that its task accepts, and the tables have every station."""

import os
import pathlib

import pytest

from benchmarks.road import differences, pretraining, road_table
from benchmarks.road.road_tasks import CURVES, FEW_LABELS, RANDOM, TASKS, check_files, flags_of, rows
from benchmarks.road.stations import SIZES, STATIONS, configurations, num_parameters, write_configurations
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import registry

ROOT = pathlib.Path(__file__).parents[2]
NAMES = list(STATIONS)
CONFIGS = {name: f"{name}.json" for name in ("bert", "gpt", "elmo", "awd")}
OF_THE_COMMAND = ("config", "vocab_file", "random_init")  # flags of finetune that its configuration lacks


@pytest.mark.parametrize("name", NAMES)
def test_each_row_of_a_station_is_a_command_that_its_task_accepts(name):
    found = rows([name])
    assert len(found) == (2 + 2 * STATIONS[name].has_mix) * len(TASKS) + 2 * len(FEW_LABELS) * (name in CURVES)
    config = configurations("5m")[STATIONS[name].config]
    for row in found:
        given = flags_of(row, "models", "tasks", CONFIGS, "vocab.txt", 1)
        assert os.path.dirname(given.get("test_file", "")) == ("" if "glue" in given["data_dir"] else given["data_dir"])
        has_weights = given.get("init_checkpoint") and not given["random_init"]
        assert (not has_weights and "init_vectors" not in given) == row.endswith(RANDOM)
        assert given["seed"] == int(row[-1] if row[-1].isdigit() else 1)
        run = {flag: value for flag, value in given.items() if flag not in OF_THE_COMMAND}
        if not has_weights:
            run["init_checkpoint"] = ""
        run = FinetuningConfig(**run).checked_against(config)
        run.check_read(given)
        registry.find(run.task).check_options(run)


@pytest.mark.parametrize("model", dict.fromkeys(station.model for station in STATIONS.values()))
def test_each_model_is_pre_trained_by_a_command_that_has_these_flags(model, tmp_path):
    configs = write_configurations("5m", str(tmp_path))
    verb, given = pretraining.command(model, "corpus", "models", "tasks", configs, "vocab.txt", 10.0, 1)
    page = (ROOT / "docs" / "reference" / f"{verb}.md").read_text(encoding="utf-8")
    assert [flag for flag in given if f"| `--{flag}` |" not in page] == []
    assert given.get("workdir", given.get("vectors_file")) == os.path.join("models", model)


def test_a_random_start_trains_the_whole_model_from_the_first_step():
    for name in NAMES:
        given = flags_of(f"{name}:sst-2:{RANDOM}", "models", "tasks", CONFIGS, "vocab.txt", 1)
        assert not {"freeze_layers", "gradual_unfreezing", "layer_decay", "mlm_tuning_steps"} & set(given)
    few = flags_of("ULMFiT:sst-2:pre-trained", "models", "tasks", CONFIGS, "vocab.txt", 1, most_examples=320)
    assert (few["max_train_examples"], few["gradual_unfreezing"], few["mlm_tuning_steps"]) == (320, 2, 20)


def test_word_vectors_take_the_passes_that_fit_although_start_ups_differ(monkeypatch):
    clock, passes, start_ups = [0.0], [], iter([30.0, 5.0, 4.2, 5.3])  # the first one is cold

    def learn(verb, epochs, **given):
        passes.append(epochs)
        clock[0] += next(start_ups, 5.0) + 0.5 * epochs

    monkeypatch.setattr(pretraining.own_commands, "run", learn)
    monkeypatch.setattr(pretraining.time, "monotonic", lambda: clock[0])
    done = pretraining.run("learn_vectors", {}, 2.0)
    assert passes[:6] == [1, 1, 2, 4, 8, passes[-1]] and done["epochs"] == passes[-1]
    assert done["minutes"] == pytest.approx(2.0, rel=0.1)
    monkeypatch.setattr(pretraining.time, "monotonic", lambda: 0.0)  # a clock without a difference
    assert pretraining.run("learn_vectors", {}, 2.0)["epochs"] <= 10_001


def test_a_missing_file_is_named_before_any_training(tmp_path):
    names = [("conll2003", "txt"), ("glue/SST-2", "tsv"), ("glue/STS-B", "tsv")]
    for directory, ending in names:
        (tmp_path / directory).mkdir(parents=True)
        for split in ("train", "dev"):
            (tmp_path / directory / f"{split}.{ending}").touch()
    with pytest.raises(UserError, match=r"there is no file .*conll2003/test.txt; give the folder"):
        check_files(str(tmp_path), ["BERT"])
    (tmp_path / "conll2003" / "test.txt").touch()
    with pytest.raises(UserError, match=r"^--tasks_dir=.*: .*20newsgroups-bydate: task newsgroups expects train.jsonl"):
        check_files(str(tmp_path), ["BERT"])
    (tmp_path / "20newsgroups-bydate").mkdir()
    for name in ("train.jsonl", "test.jsonl"):
        (tmp_path / "20newsgroups-bydate" / name).touch()
    check_files(str(tmp_path), ["BERT"])
    (tmp_path / "multi30k").mkdir()
    for name in ("train.en", "val.en", "val.de"):
        (tmp_path / "multi30k" / name).touch()
    with pytest.raises(UserError, match=r"multi30k: task translation expects train.de "):
        check_files(str(tmp_path), ["BERT", "CoVe"])


def test_the_corpus_of_another_text_is_refused(tmp_path):
    (tmp_path / "text.json").write_text('{"input_files": "a.txt"}', encoding="utf-8")
    with pytest.raises(UserError, match="--input_files=b.txt: .* has the corpus of a.txt; give another --output_dir"):
        pretraining.prepare("b.txt", "", str(tmp_path))


def test_the_stations_of_a_size_have_about_the_same_number_of_parameters(tmp_path):
    for size in SIZES:
        counts = [num_parameters(config) for config in configurations(size).values()]
        assert max(counts) < 1.5 * min(counts)
    assert num_parameters(configurations("5m")["bert"]) == pytest.approx(5.4e6, rel=0.01)
    assert set(write_configurations("5m", str(tmp_path))) == set(CONFIGS)
    assert sorted(os.listdir(tmp_path)) == sorted(CONFIGS.values())


def test_each_station_is_compared_with_its_random_weights_and_with_the_last_one():
    pairs = differences.pairs(["word2vec", "GPT", "BERT"])
    assert len(pairs) == 2 * len(TASKS) + 2 * (len(TASKS) + len(FEW_LABELS)) + len(TASKS) + len(FEW_LABELS)
    assert pairs["GPT:sst-2-100:minus BERT"] == ("GPT:sst-2-100:pre-trained", "BERT:sst-2-100:pre-trained")
    assert all({*pair} <= {*rows(["word2vec", "GPT", "BERT"])} for pair in pairs.values())
    assert len(differences.pairs(["word2vec"])) == len(TASKS)


def test_the_tables_and_pictures_have_every_station():
    results = {
        row: {
            "reported": {"score": 0.5 + number / 1000, "interval": [0.4, 0.7]},
            "baseline": {"score": 0.3, "what": "a guess"},
            "layer_shares": [0.4, 0.3, 0.3],
        }
        for number, row in enumerate(rows(NAMES))
    }
    done = {station.model: {"minutes": 10.0} for station in STATIONS.values()}
    lines = list(road_table.scores(results, done, NAMES))
    assert len(lines) == 3 + len(NAMES) and lines[-1].count("0.3000 (a guess)") == len(TASKS)
    assert "| word2vec (Mikolov et al. 2013) | 0.5000 (0.4000 to 0.7000); random 0.5010" in lines[2]
    compared = {pair: {"difference": 0.01, "interval": [-0.02, 0.04]} for pair in differences.pairs(NAMES)}
    lines = list(road_table.few_labels(results, compared, NAMES))
    assert [line.split("|")[1].strip() for line in lines[2:8:2]] == [f"{name}, pre-trained" for name in CURVES]
    assert [line.split("|")[1].strip() for line in lines[-2:]] == ["ULMFiT minus BERT", "GPT minus BERT"]
    assert lines[-3] == "| BERT, pre-trained minus random |" + " +0.0100 (-0.0200 to +0.0400) |" * 3
    lines = list(road_table.comparison(compared, NAMES))
    assert [line.split("|")[1].strip() for line in lines[-2:]] == ["ULMFiT minus BERT", "GPT minus BERT"]
    assert len(lines) == 2 + 2 * len(NAMES) - 1 and len(list(road_table.comparison(compared, ["GPT"]))) == 4
    for number, row in enumerate(row for row in results if row.startswith("ELMo:sts-b:")):
        results[row]["layer_shares"] = [0.2 + number / 100, 0.3, 0.5 - number / 100]
    lines = [line for line in road_table.mixes(results, "ELMo") if line.startswith("| STS-B")]
    # The random start has number 1, the further seeds have 2 and 3.
    assert lines == [
        "| STS-B, pre-trained | 0.217 (0.200 to 0.230) | 0.300 (0.300 to 0.300) | 0.483 (0.470 to 0.500) |",
        "| STS-B, random | 0.210 | 0.300 | 0.490 |",
    ]
    for image in (road_table.draw(results, NAMES, "x"), road_table.draw_few_labels(results, NAMES, "x")):
        assert image.startswith(b"\x89PNG")
