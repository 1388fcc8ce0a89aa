"""The search for the peers' settings: its grid, its choice, and the separation of its text from reported text."""

import json

import pytest

from benchmarks.quality import choosing_documents, language_models, search_results, speed_of_peers, time_budget
from benchmarks.quality.quality_contenders import Contender, grid, parsed
from keras_bert_app.errors import UserError
from pipelines.corpus.preparation import prepare_corpus

MACHINE = {"cores": 2}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """Directories of two corpora of the same text, which hold out different documents, some of them in common."""
    text = [[f"{word} number {number} is here ." for word in ("first", "second", "third")] for number in range(120)]
    directories = [str(tmp_path_factory.mktemp(f"corpus{seed}") / "corpus") for seed in (1, 2)]
    for seed, directory in enumerate(directories, start=1):
        prepare_corpus(directory, documents=text, holdout_fraction=0.3, seed=seed, workers=1)
    return directories


def trial(accuracy, is_finite=True):
    figures = {"eval_masked_lm_accuracy": accuracy, "eval_masked_lm_loss": 5.0, "eval_unigram_accuracy": 0.05}
    return {"figures": figures if is_finite else {}, "steps": 1200, "machine": MACHINE}


@pytest.mark.parametrize(
    "entry, contender",
    [
        ("ours", Contender("ours")),
        ("ours@@float32", Contender("ours", None, "float32")),
        ("transformers@1e-3", Contender("transformers", 1e-3)),
        ("keras_hub@2e-3@float32", Contender("keras_hub", 2e-3, "float32")),
        ("transformers@3e-3@@0.08", Contender("transformers", 3e-3, None, 0.08)),
        ("keras_hub@1e-3@bfloat16@0.06@0", Contender("keras_hub", 1e-3, "bfloat16", 0.06, 0.0)),
        ("keras_hub@1e-3@@@0.2", Contender("keras_hub", 1e-3, None, None, 0.2)),
    ],
)
def test_an_entry_of_contenders_has_rate_precision_initial_range_and_dropout(entry, contender):
    assert parsed(entry) == contender


@pytest.mark.parametrize(
    "entry, words",
    [
        ("keras_hub", "has no learning rate"),
        ("keras_hub@@float32@0.06", "has no learning rate"),
        ("keras_hub@fast", "expected NAME"),
        ("keras_hub@nan", "peak rate is nan"),
        ("keras_hub@0", "peak rate is 0.0"),
        ("keras_hub@1e-3@float16", "expected NAME"),
        ("keras_hub@1e-3@float32@-0.02", "initializer range is -0.02"),
        ("keras_hub@1e-3@float32@0.02@1", "dropout is 1.0"),
        ("transformers@1e-3@float32@0.02@0.1@7", "expected NAME"),
        ("theirs@1e-3", "expected NAME"),
        ("ours@1e-3", "leave them out"),
        ("ours@@@@0", "leave them out"),
    ],
)
def test_an_entry_of_contenders_that_no_run_can_have_is_refused_in_one_line(entry, words):
    with pytest.raises(UserError, match=words) as refusal:
        parsed(entry)
    assert repr(entry) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_grid_has_an_entry_for_each_combination_of_settings_of_each_peer():
    entries = grid(
        ["keras_hub@float32", "transformers@bfloat16"], ["1e-3", "2e-3", "0.001"], ["0.02", "0.06"], ["0", "0.1"]
    )
    assert len(entries) == len(set(entries)) == 16
    assert "transformers@2e-3@bfloat16@0.06@0" in entries
    assert {parsed(entry)[1:] for entry in entries if parsed(entry).name == "keras_hub"} == {
        (rate, "float32", deviation, dropout)
        for rate in (1e-3, 2e-3)
        for deviation in (0.02, 0.06)
        for dropout in (0, 0.1)
    }


@pytest.mark.parametrize(
    "peers, rates, words",
    [
        (["keras_hub"], ["1e-3"], "--peers has 'keras_hub'"),
        (["ours@float32"], ["1e-3"], "leave them out"),
        (["keras_hub@float32"], [], "is empty"),
        (["keras_hub@float32"], [""], "a number in each list"),
        (["keras_hub@float32"], ["inf"], "peak rate is inf"),
    ],
)
def test_a_grid_without_a_peer_or_with_a_value_that_no_peer_can_have_is_refused(peers, rates, words):
    with pytest.raises(UserError, match=words):
        grid(peers, rates, ["0.02"], ["0.1"])


def test_a_document_that_shares_a_sentence_with_a_reported_document_does_not_choose():
    documents = [b"a\nb", b"c\nd", b"e\nf"]
    assert list(choosing_documents.others(documents, [b"x\nd\ny", b"b c"])) == [b"a\nb", b"e\nf"]


def test_a_search_chooses_by_documents_that_are_not_reported_and_refuses_reported_documents(corpora, tmp_path):
    choosing, reported = corpora
    path, num_documents, num_heldout = choosing_documents.write(str(tmp_path), choosing, reported)
    with open(path, "rb") as file:
        documents = file.read().strip().split(b"\n\n")
    heldout = [set(choosing_documents.heldout_documents(corpus)) for corpus in corpora]
    assert set(documents) == heldout[0] - heldout[1] != heldout[0]
    assert (num_documents, num_heldout) == (len(documents), len(heldout[0]))
    choosing_documents.refuse_if_reported(str(tmp_path), reported)
    with pytest.raises(UserError, match=f"{num_documents} of the {num_documents} documents that chose"):
        choosing_documents.refuse_if_reported(str(tmp_path), choosing)
    with pytest.raises(UserError, match="hold out the same text: .* another --seed"):
        choosing_documents.write(str(tmp_path), choosing, choosing)
    with pytest.raises(UserError, match="give another directory"):
        choosing_documents.write(str(tmp_path), reported, choosing)


def test_the_best_trial_of_a_peer_has_the_highest_accuracy_and_a_rate_at_the_edge_is_named():
    trials = {
        "keras_hub@1e-3@float32@0.02@0": trial(0.10),
        "keras_hub@2e-3@float32@0.02@0": trial(0.12),
        "keras_hub@4e-3@float32@0.02@0": trial(0.0, is_finite=False),
        "transformers@1e-3@float32@0.02@0": trial(0.11),
        "transformers@2e-3@float32@0.02@0": trial(0.13),
    }
    assert list(search_results.best_of(trials, "masked").values()) == [
        "keras_hub@2e-3@float32@0.02@0",
        "transformers@2e-3@float32@0.02@0",
    ]
    assert search_results.at_the_edge(trials, "masked") == [
        "transformers@2e-3@float32@0.02@0: its peak rate is the highest that was tried; add another to --learning_rates"
    ]
    lines = list(search_results.table(trials, "masked"))
    assert "| keras_hub | 0.002 | float32 | 0.02 | 0 | 1,200 | **0.1200** | 5.0000 |" in lines
    assert "| keras_hub | 0.004 | float32 | 0.02 | 0 | 1,200 | not finite | not finite |" in lines
    assert lines[-1] == "| none: the most frequent piece | | | | | | 0.0500 |  |"


def test_the_best_trial_of_a_causal_language_model_has_the_lowest_perplexity_and_finite_weights():
    trials = {
        f"transformers@{rate}@float32@0.02@0": {"figures": figures, "steps": 1200, "machine": MACHINE}
        for rate, figures in (
            ("1e-3", {}),
            ("2e-3", {"eval_perplexity": 120.0, "eval_language_model_accuracy": 0.2, "eval_bigram_perplexity": 205.0}),
            ("3e-3", {"eval_perplexity": 110.0, "eval_language_model_accuracy": 0.1, "eval_bigram_perplexity": 205.0}),
            ("4e-3", {}),
        )
    }
    assert search_results.best_of(trials, "causal") == {"transformers": "transformers@3e-3@float32@0.02@0"}
    lines = list(search_results.table(trials, "causal"))
    assert "| transformers | 0.003 | float32 | 0.02 | 0 | 1,200 | **110.0** | 0.1000 |" in lines
    assert lines[-1] == "| none: bigrams of the training text | | | | | | 205.0 |  |"


def test_keras_hub_is_no_peer_of_a_causal_language_model():
    language_models.check("masked", ["ours", "keras_hub", "transformers"])
    with pytest.raises(UserError, match="'keras_hub': has no causal language model .* give ours or transformers"):
        language_models.check("causal", ["ours", "keras_hub"])


def test_a_comparison_names_the_trials_and_refuses_the_seed_of_the_search_and_other_contenders(corpora, tmp_path):
    choosing, reported = corpora
    _, num_documents, _ = choosing_documents.write(str(tmp_path), choosing, reported)
    trials = {f"keras_hub@{rate}@float32@0.06@0": trial(accuracy) for rate, accuracy in (("1e-3", 0.1), ("2e-3", 0.2))}
    settings = {
        "language_model": "masked",
        "config": "tiny",
        "minutes": 4.0,
        "seed": 0,
        "num_documents": num_documents,
    }
    search_results.keep(str(tmp_path), trials, settings)
    contenders = ["ours", "keras_hub@2e-3@float32@0.06@0.0", "keras_hub@1e-3@float32"]
    paragraph, _ = search_results.sentences(str(tmp_path), reported, [1, 2], contenders, "masked")
    assert paragraph == (
        "Settings of the peers: keras_hub@2e-3@float32@0.06@0.0: best of 2 trials with the steps of 4 minutes (config "
        f"tiny, seed 0), by the held-out MLM accuracy on {num_documents} other documents."
    )
    for seeds, entries, words in (([0], contenders, "leave it out"), ([1], ["ours"], "has none of them")):
        with pytest.raises(UserError, match=words):
            search_results.sentences(str(tmp_path), reported, seeds, entries, "masked")
    with pytest.raises(UserError, match="are held out in"):
        search_results.sentences(str(tmp_path), choosing, [1], contenders, "masked")
    assert json.loads((tmp_path / "best.json").read_text())["num_trials"] == {"keras_hub": 2}
    with pytest.raises(UserError, match="for --language_model=masked, not for causal"):
        search_results.sentences(str(tmp_path), reported, [1], contenders, "causal")
    (tmp_path / "best.json").write_text("{")
    with pytest.raises(UserError, match=r"best\.json cannot be read .*search_settings"):
        search_results.sentences(str(tmp_path), reported, [1], contenders, "masked")


def test_a_trial_takes_the_steps_of_its_minutes_with_the_time_before_the_first_step():
    # 20 s before the first step, then 2 steps a second.
    log = [{"step": 4, "seconds": 22.0}, {"step": 30, "seconds": 35.0}, {"step": 80, "seconds": 60.0}]
    speed = speed_of_peers.speed_of(log)
    assert speed == {"seconds_before_steps": 20.0, "steps_per_second": 2.0}
    assert speed_of_peers.steps_in(1.0, speed) == 80
    with pytest.raises(UserError, match="--minutes=0.1: a peer needs 20 s before its first step; give more"):
        speed_of_peers.steps_in(0.1, speed)
    with pytest.raises(UserError, match="--speed_minutes is too short: the log of a peer has 1 lines"):
        speed_of_peers.speed_of(log[:1])


def test_a_budget_of_steps_ends_and_sets_the_rate_by_steps_alone(tmp_path):
    path = tmp_path / "log.jsonl"
    budget, rates = time_budget.TimeBudget(1e-9, 2.0, 0.25, str(path), num_steps=8), []
    while not budget.is_over():
        rates.append(budget.rate())
        budget.took_step(lambda: 1.5)
    assert rates == [0.0, 1.0, 1.5, 1.25, 1.0, 0.75, 0.5, 0.25]
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [8]
