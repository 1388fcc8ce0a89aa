"""Text to text: a run learns to translate word by word, resumes bit for bit, and answers files."""

import dataclasses
import io
import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.export.text_answers import TextToTextModule
from keras_bert_app.interop import own_layout
from keras_bert_app.interop.weights import Weights
from keras_bert_app.modeling.execution import PARTS, PLAIN
from keras_bert_app.modeling.text_to_text_model import Decoder, TextToTextModel
from keras_bert_app.runs import checkpoints, threads
from keras_bert_app.runs.shared_tokenizer import run_tokenizer
from keras_bert_app.tasks import objectives, predicting, registry, transfer
from keras_bert_app.tasks.batches import make_batch
from keras_bert_app.tasks.families.text_to_text import Example
from keras_bert_app.tasks.scoring import FinetunedRun, compilation, opened, set_threads
from keras_bert_app.training import forward
from pipelines import processors
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES
from tests.tasks import conftest

WORDS = {"eins": "one", "zwei": "two", "drei": "three", "vier": "four", "fünf": "five", "sechs": "six"}
VOCABULARY = "".join(f"{piece}\n" for piece in (*SPECIAL_PIECES, ".", *WORDS, *WORDS.values())).encode()
CONFIG = BertConfig(
    vocab_size=VOCABULARY.count(b"\n"),
    hidden_size=32,
    num_attention_heads=2,
    num_hidden_layers=1,
    intermediate_size=64,
    max_position_embeddings=17,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    initializer_range=0.1,
    do_lower_case=False,
)
SETTINGS = dict(
    task="translation",
    source="de",
    target="en",
    max_seq_length=11,
    global_batch_size=16,
    learning_rate=5e-3,
    num_train_steps=160,
    eval_steps=80,
    save_checkpoints_steps=80,
    bias_correction=True,
    keep_checkpoints=9,
    num_warmup_steps=10,
    num_beams=2,
    strategy="one_device",
    seed=3,
)


@pytest.fixture(scope="session")
def parallel_dir(tmp_path_factory):
    """A directory with train (400 pairs), val (40) and test (30). Each text is one to five words for numbers."""
    directory = tmp_path_factory.mktemp("parallel")
    generator = np.random.default_rng(5)
    for name, count in (("train", 400), ("val", 40), ("test", 30)):
        lines = [[str(word) for word in generator.choice([*WORDS], generator.integers(1, 6))] for _ in range(count)]
        for language, texts in (("de", lines), ("en", [[WORDS[word] for word in line] for line in lines])):
            (directory / f"{name}.{language}").write_text(
                "".join(" ".join(text) + ".\n" for text in texts), encoding="utf-8"
            )
    return directory


def trained(workdir, directory, **settings):
    """(results, printed text) of a run."""
    output = io.StringIO()
    run = FinetuningConfig(**{**SETTINGS, "data_dir": str(directory), **settings})
    return conftest.finetuned(str(workdir), CONFIG, run, VOCABULARY, stream=output), output.getvalue()


@pytest.fixture(scope="session")
def translator(tmp_path_factory, parallel_dir):
    """(work directory, results, printed text) of a run that has learned to translate. No test may change it."""
    workdir = tmp_path_factory.mktemp("translator") / "run"
    return str(workdir), *trained(workdir, parallel_dir, test_file=str(parallel_dir / "test.de"))


def test_a_run_learns_to_translate_and_reports_bleu_beside_the_text_itself(translator):
    workdir, figures, printed = translator
    assert figures["metric"] == "bleu" and figures["reported"]["score"] > 90
    assert figures["baseline"]["score"] < 10 and not figures["no_better_than_baseline"]
    assert figures["reported"]["signatures"]["bleu"].startswith("nrefs:1|case:mixed")
    assert "perplexity" in printed and "the text itself, unchanged: bleu" in printed
    assert printed.endswith("results.json, answers.png, attention.png, mistakes.jsonl\n")
    assert {"answers.png", "attention.png", "mistakes.jsonl", "results.json"} <= set(os.listdir(workdir))


def test_a_recurrent_run_with_batches_by_tokens_and_own_pieces_learns_and_resumes_bit_for_bit(parallel_dir, tmp_path):
    settings = {"decoder": "rnn_feedback", "attention": "dot", "bilstm_units": 16, "num_beams": 1}
    settings |= {"recurrent_encoder": "gru"}
    settings |= {"num_train_steps": 60, "eval_steps": 30, "save_checkpoints_steps": 30, "learning_rate": 2e-2}
    settings |= {"batch_tokens": 176, "teacher_forcing": 0.5, "average_checkpoints": 2}
    figures, printed = trained(tmp_path / "run", parallel_dir, **settings)
    assert not figures["no_better_than_baseline"]
    assert FinetunedRun(str(tmp_path / "run")).model.parts == ("encoder", "bigru", "decoder", "masked_lm")
    # The mean of the checkpoints is one more evaluation.
    assert "mean of the checkpoints of steps 30, 60: dev bleu" in printed
    assert figures["num_evaluations"] == 3 and figures["average"]["steps"] == [30, 60]
    shutil.copytree(tmp_path / "run", tmp_path / "again")
    last = conftest.newest(tmp_path / "again")
    right = conftest.weights_of(last)
    shutil.rmtree(last)
    figures_again, printed = trained(tmp_path / "again", parallel_dir, **settings)
    assert "resumed at step 30" in printed and figures_again["reported"] == figures["reported"]
    for path, values in conftest.weights_of(conftest.newest(tmp_path / "again")).items():
        np.testing.assert_array_equal(values, right[path], err_msg=path)


@pytest.mark.slow
def test_a_mean_that_stays_the_best_keeps_its_score_when_the_run_continues(translator, parallel_dir, tmp_path):
    """The best weights are a mean, as their manifest says. The run then goes on without one."""
    workdir = tmp_path / "run"
    shutil.copytree(translator[0], workdir)
    model = FinetunedRun(str(workdir)).model
    checkpoints.save_best(str(workdir), model, 160, {"eval_bleu": 100.5}, [80, 160])
    settings = {"test_file": str(parallel_dir / "test.de"), "num_train_steps": 162, "eval_steps": 2}
    figures, printed = trained(workdir, parallel_dir, **settings)
    assert figures["best"].items() >= {"step": 160, "score": 100.5, "mean_of_steps": [80, 160]}.items()
    assert "weights of mean of steps 80, 160, chosen on" in printed


@pytest.mark.slow
def test_target_texts_may_have_their_own_vocabulary(parallel_dir, tmp_path):
    """The vocabulary of the texts has German words, and the one of the targets English words. Their sizes differ."""
    words, target_path = [*WORDS], tmp_path / "target.txt"
    vocabulary = "".join(f"{piece}\n" for piece in (*SPECIAL_PIECES, ".", *words)).encode()
    target_path.write_text(
        "".join(f"{piece}\n" for piece in (SPECIAL_PIECES[0], *WORDS.values(), *SPECIAL_PIECES[1:], ".")),
        encoding="utf-8",
    )
    settings = {
        **SETTINGS,
        "data_dir": str(parallel_dir),
        "target_vocab_file": str(target_path),
        "num_train_steps": 100,
        "length_buckets": False,  # one length of rows, and so one trace of each step
    }
    settings |= {"eval_steps": 100, "save_checkpoints_steps": 100, "learning_rate": 1e-2}
    config, workdir = CONFIG.replace(vocab_size=vocabulary.count(b"\n")), tmp_path / "run"
    figures = conftest.finetuned(str(workdir), config, FinetuningConfig(**settings), vocabulary)
    assert figures["reported"]["score"] > 50
    target_path.unlink()  # the run has its own copy
    figures_again = conftest.finetuned(str(workdir), config, FinetuningConfig(**settings), vocabulary)
    assert figures_again["reported"] == figures["reported"]  # the run goes on without the file
    run = FinetunedRun(str(workdir))
    table = {variable.path: variable.shape for variable in run.model.weights}
    assert table["decoder/embeddings/word_embeddings"] == (12, 32)
    (prediction,), _ = run.predictions([Example("0", "zwei eins.", None, "a:1")])
    outputs = TextToTextModule(run).exported["alignments"](text=tf.constant(["zwei eins."]))
    assert outputs["texts"].numpy()[0].decode() == prediction["text"]
    assert outputs["source_pieces"].numpy()[0].tolist() == [b"[CLS]", b"zwei", b"eins", b".", b"[SEP]"]
    assert set(outputs["target_pieces"].numpy()[0][:-2].tolist()) <= {word.encode() for word in WORDS.values()}
    # Another vocabulary of the same size has other pieces, so the decoder of this run does not fit.
    weights = own_layout.read(str(workdir))
    assert not any(path.startswith(("decoder/", "masked_lm/")) for path in weights.tensors)


def test_predictions_are_lines_of_text_and_the_best_texts_with_their_scores(translator, tmp_path):
    path = tmp_path / "new.txt"
    path.write_text("zwei eins.\n\nsechs.\n", encoding="utf-8")
    count, names, _ = opened(translator[0]).predict(str(path), str(tmp_path / "out"))
    assert count == 3 and names == ["probabilities.jsonl", "translations.txt"]
    lines = (tmp_path / "out/translations.txt").read_text(encoding="utf-8").split("\n")
    assert lines[:3] == ["two one.", "", "six."] and len(lines) == 4
    first = json.loads((tmp_path / "out/probabilities.jsonl").read_text(encoding="utf-8").split("\n")[0])
    assert first["text"] == first["texts"][0] == "two one." and len(first["texts"]) == 2
    assert first["scores"] == sorted(first["scores"], reverse=True) and first["scores"][0] < 0


def test_only_a_run_that_writes_texts_sets_the_threads(translator, monkeypatch):
    widths = []
    monkeypatch.setattr(threads, "use_one_thread_per_op", widths.append)
    set_threads(translator[0])
    assert widths == [CONFIG.hidden_size]
    monkeypatch.setattr(registry, "find", lambda name: registry.TASKS["ner"])
    set_threads(translator[0])
    assert widths == [CONFIG.hidden_size]


def test_batches_at_the_same_time_give_the_same_texts_and_stop_when_asked(translator, parallel_dir, monkeypatch):
    def run_with(num_cores):
        monkeypatch.setattr(processors, "num_cores", lambda: num_cores)
        return FinetunedRun(translator[0])

    examples = registry.find("translation").read_file(str(parallel_dir / "test.de"), run_with(1).run)
    expected, _ = run_with(1).predictions(examples)
    found, _ = run_with(3).predictions(examples)
    assert [entry["texts"] for entry in found] == [entry["texts"] for entry in expected]
    np.testing.assert_allclose([entry["scores"] for entry in found], [entry["scores"] for entry in expected], atol=1e-5)

    run, looks = run_with(3), iter([False, False, True])
    features = run.task.family.featurize(run.task, examples, run.tokenizer, run.run, run.labels, has_labels=False)
    execution, shapes = compilation(run.strategy, run.run, run.model.config, features)
    call = forward.make_prediction_call(run.strategy, run.model, execution, run.task.family.make_answers(run.run))
    rest = (run.model, features, run.run, 6, lambda: next(looks))
    assert shapes["num_calls"] == 3 and predicting.unit_logits(call, *rest, **shapes) is None
    assert next(looks, None) is None  # the function was not called again after it said stop


def test_more_beams_and_another_length_penalty_may_be_given_to_a_finished_run(translator, parallel_dir):
    run = FinetunedRun(translator[0], {"num_beams": 3, "length_penalty": 0.0})
    scores, examples, _, predictions = run.evaluate(str(parallel_dir / "val.de"))
    assert scores["bleu"] > 90 and len(examples) == 40 and len(predictions[0]["texts"]) == 3


def test_a_decoder_starts_from_the_layers_of_an_encoder(parallel_dir, tmp_path):
    """A run with the weights of an encoder alone has them in its decoder too, before its first step."""
    encoder = TextToTextModel(CONFIG, Decoder("transformer", 0, "embeddings", 2, 3), seed=11)
    tensors = {v.path: v.numpy() for v in encoder.weights if not v.path.startswith("decoder/")}
    weights = Weights(CONFIG, tensors, VOCABULARY, origin="a test")
    model = TextToTextModel(CONFIG, Decoder("transformer", 0, "nothing", 2, 3), seed=12)
    for decoder_init in ("encoder", "scratch"):
        run = FinetuningConfig(**{**SETTINGS, "decoder_init": decoder_init})
        merged, lines = transfer.with_decoder(weights, [], model, run)
        decoder = {path: values for path, values in merged.tensors.items() if path.startswith("decoder/")}
        if decoder_init == "scratch":
            assert not decoder and lines == ["  decoder: random weights"]
            continue
        assert decoder.keys() == {v.path for v in model.weights if v.path.startswith("decoder/")}
        for path, values in decoder.items():
            source = tensors.get(path.replace("decoder/", "encoder/"))
            assert (source is None) == ("cross_attention" in path)
            expected = {v.path: v.numpy() for v in model.weights}[path] if source is None else source
            np.testing.assert_array_equal(values, expected)
        assert lines == ["  decoder: 1 layer from those of the encoder; attention to the encoder is new"]
        assert transfer.with_decoder(merged, [], model, run) == (merged, [])
        scratch = dataclasses.replace(run, decoder_init="scratch")
        again, lines = transfer.with_decoder(merged, [], model, scratch)
        assert again.tensors.keys() == tensors.keys()
        assert lines == ["  decoder: random weights instead of those of the earlier run"]


def test_the_loss_has_label_smoothing_over_all_pieces():
    generator = np.random.default_rng(2)
    logits = tf.constant(generator.normal(size=(3, 4, 7)).astype(np.float32))
    ids = tf.constant([[2, 5, 6, 3, 0], [2, 3, 0, 0, 0], [2, 1, 4, 6, 3]])
    log_probabilities = tf.nn.log_softmax(logits).numpy().astype(np.float64)
    right, smoothed, count = 0.0, 0.0, 0
    gradient = np.zeros((3, 4, 7))  # of the sum of the losses: softmax - target
    for row in range(3):
        for place in range(4):
            if label := int(ids[row, place + 1]):
                right -= log_probabilities[row, place, label]
                target = 0.9 * np.eye(7)[label] + 0.1 / 7
                smoothed -= (target * log_probabilities[row, place]).sum()
                gradient[row, place] = np.exp(log_probabilities[row, place]) - target
                count += 1
    for execution in (PLAIN, PARTS):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            sums = objectives.TextToText(0.1).loss_sums({"logits": logits}, {"target_word_ids": ids}, execution)
        np.testing.assert_allclose(tape.gradient(sums["loss_sum"], logits), gradient, atol=1e-5)
        np.testing.assert_allclose(sums["loss_sum"], smoothed, rtol=1e-5)
        np.testing.assert_allclose(sums["nll_sum"], right, rtol=1e-5)
        assert sums["count"] == count
    figures = objectives.TextToText(0.1).metrics({name: float(value) for name, value in sums.items()})
    assert figures["perplexity"] == pytest.approx(np.exp(right / count), rel=1e-5)


def test_a_table_without_a_header_has_columns_by_number(tmp_path):
    (tmp_path / "train.tsv").write_text("eins\tone\nzwei drei\ttwo three\n")
    for task in map(registry.find, ("translation", "rewrite")):
        run = FinetuningConfig(task=task.name, data_dir=str(tmp_path), text_columns=("0",), label_column="1")
        run = task.bound(run).settled(run)
        assert run.header == "no"
        examples = task.bound(run).read_split(run.data_dir, "train", run)
        assert [(example.text, example.target) for example in examples] == [("eins", "one"), ("zwei drei", "two three")]
    (tmp_path / "train.tsv").write_text("0\t1\neins\tone\n")
    assert task.settled(dataclasses.replace(run, header="auto")).header == "auto"


def test_targets_that_the_vocabulary_lacks_are_refused(parallel_dir, tmp_path):
    directory = shutil.copytree(parallel_dir, tmp_path / "data")
    (directory / "train.en").write_text("mille\n" * 400)
    with pytest.raises(UserError, match="the target texts of --data_dir=.*: 100.0% of 400 word pieces are .UNK.*learn"):
        trained(tmp_path / "run", directory)


def test_targets_have_their_begin_and_end_and_lose_their_last_pieces():
    task = registry.find("translation")
    run = FinetuningConfig(**{**SETTINGS, "max_target_length": 5})
    examples = [Example("0", "eins zwei", "one two three four", "a:1"), Example("1", "drei", "three", "a:2")]
    tokenizer = run_tokenizer(VOCABULARY, BertConfig(do_lower_case=False))
    features = task.family.featurize(task, examples, tokenizer, run, ())
    batch = make_batch(features, np.array([1, 0]), 3, 6)
    pieces = VOCABULARY.decode().split("\n")
    shown = [[pieces[number] for number in row if number] for row in batch["target_word_ids"]]
    assert shown == [["[CLS]", "three", "[SEP]"], ["[CLS]", "one", "two", "three", "[SEP]"], []]
    assert features.longest_rows().tolist() == [5, 3]
    assert "1 targets have more than 5; they lost their ends" in features.notes[-1]


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"pooling": "mean"}, "--pooling=mean: task translation does not read it"),
        ({"bilstm_units": 8}, "--bilstm_units=8: is for recurrent decoders; leave it out"),
        ({"attention": "dot"}, "--attention=dot: --decoder=transformer does not read it; leave it out"),
        (
            {"decoder": "rnn_state", "shared_weights": "all"},
            "--shared_weights=all: --decoder=rnn_state has no layers of",
        ),
        ({"shared_weights": "all", "decoder_init": "scratch"}, "--decoder_init=scratch: with --shared_weights=all the"),
        ({"target": "de"}, "--source=de --target=de: both are the same files; give two languages"),
        ({"source": ".de"}, "--source=.de: give the ending without the dot: de"),
        ({"text_columns": ("q",)}, "--source=de and --text_columns=q were both given; --source is for files"),
        ({"shared_weights": "all", "decoder_layers": 2}, "--decoder_layers=2: with --shared_weights=all"),
        ({"batch_tokens": 87}, "--batch_tokens=87: a batch has at least 8 rows of 11 tokens; give 88 or more"),
        ({"batch_tokens": 88, "length_buckets": False}, "--batch_tokens=88: needs batches of rows of similar length"),
        (
            {"batch_tokens": 88, "global_batch_size": 18, "gradient_accumulation_steps": 3},
            "--batch_tokens=88: batches have multiples of 8 rows, which do not divide into 3 equal parts",
        ),
        ({"target_vocab_file": "missing.txt", "mlm_tuning_steps": 2}, "--mlm_tuning_steps=2: trains on texts of one"),
        ({"teacher_forcing": 0.5}, "--teacher_forcing=0.5: --decoder=transformer does not read it; leave it out"),
        ({"temperature": 0.5}, "--temperature=0.5: a search with --num_beams=2 draws nothing; give --num_beams=1"),
        ({"average_checkpoints": 1}, "--average_checkpoints=1: expected 2 or more, without --average_decay"),
        ({"max_target_length": 18}, "--max_target_length=18 is above the model's max_position_embeddings 17"),
    ],
)
def test_options_that_do_not_fit_are_refused(parallel_dir, tmp_path, settings, message):
    with pytest.raises(UserError, match=message):
        run = FinetuningConfig(**{**SETTINGS, "data_dir": str(parallel_dir), **settings}).checked_against(CONFIG)
        conftest.finetuned(str(tmp_path / "run"), CONFIG, run, VOCABULARY)


def test_draws_need_a_temperature_and_repeat_with_their_seed(translator, parallel_dir):
    with pytest.raises(UserError, match="--top_k=3: has an effect only with another --temperature, but this run has"):
        FinetuningConfig(**{**SETTINGS, "top_k": 3}).check_read(["top_k"])
    first, second = (FinetunedRun(translator[0], {"num_beams": 1, "temperature": 3.0, "seed": seed}) for seed in (1, 2))
    in_threes = FinetunedRun(translator[0], {"num_beams": 1, "temperature": 3.0, "seed": 1, "global_batch_size": 3})
    draws = [run.evaluate(str(parallel_dir / "val.de"), most=8)[-1] for run in (first, second, in_threes)]
    assert [draw["text"] for draw in draws[0]] == [draw["text"] for draw in draws[2]] and draws[0] != draws[1]
    for changes in ({"top_k": 3}, {"seed": 5}):
        with pytest.raises(UserError, match=f"--{next(iter(changes))}=.*: (has an effect only with|decides draws)"):
            FinetunedRun(translator[0], changes)


def test_other_tasks_refuse_the_options_of_text_to_text():
    with pytest.raises(UserError, match="--num_beams=2: task sst-2 does not read it"):
        registry.find("sst-2").check_options(FinetuningConfig(task="sst-2", num_beams=2))
