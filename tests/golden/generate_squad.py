"""Golden windows, labels and answers of google-research/bert's run_squad.py.

Reference: bert-tensorflow 1.0.4 (run_squad.py: read_squad_examples, convert_examples_to_features, write_predictions) on
TensorFlow 2.15.1. See README.md beside this file for the environment.

    python tests/golden/generate_squad.py

Writes these files beside this file. The texts and the vocabulary are invented.
  squad_texts.json   the texts in SQuAD 2.0's layout, at most one answer for each question
  squad_vocab.txt    the vocabulary, lower-cased
  squad.json         metadata: reference, versions, seed and settings (the flags).
                     features of every window: question (id), input_ids and segment_ids without padding, is_max_context
                     of each token, labels [first, last].
                     logits of every window: [[start], [end]] in eighths.
                     "1.1" (questions that have an answer) and "2.0" (all questions): the files of write_predictions,
                     which are predictions, nbest and, for 2.0 only, null_odds.
"""

import json
import os
import random
import string
import sys
import tempfile
import types
from importlib.metadata import version

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# The reference's models import tensorflow.contrib, which TensorFlow 2 lacks. This script builds no model.
contrib = types.ModuleType("tensorflow.contrib")
contrib.layers = types.ModuleType("tensorflow.contrib.layers")
sys.modules.update({"tensorflow.contrib": contrib, "tensorflow.contrib.layers": contrib.layers})

from bert import run_squad, tokenization  # noqa: E402  (needs the modules above)

OUTPUT_DIR = os.path.dirname(os.path.abspath(__file__))
VERSIONS = {"bert-tensorflow": "1.0.4", "tensorflow": "2.15.1"}
SEED = 12
SETTINGS = {"max_seq_length": 31, "doc_stride": 11, "max_query_length": 6, "max_answer_length": 5, "n_best_size": 8}
_BELOW_ALL = -1000.0  # logits of padding, which a model must not choose

# (context, [(question, answer or None)]). The place of an answer is the first place of its text in the context.
PARAGRAPHS = [
    (
        "The lighthouse of Harrow Point was built in 1874 (rebuilt 1902-1911) by Edda Stone, a painter's daughter. "
        "Its lamp burned whale oil, later gas; since 1936 it has been electric. Visitors climb 213 steps, and the "
        "keeper's dog greets them.",
        [
            ("Who built the lighthouse of Harrow Point?", "Edda Stone"),
            ("When was it built?", "1874"),
            ("When did the rebuilding end?", "1911"),
            ("What did the lamp burn first?", "whale oil"),
            ("How many steps do visitors climb?", "213"),
            ("Who greets the visitors?", "the keeper's dog"),
            ("Whose daughter was the builder of it, if anybody wrote that down?", "painter's"),
            ("What is the dog called?", None),
        ],
    ),
    (
        "Salt, said the old cook, is patience. He salted bread-dough twice, soup once and never fish. His three sons "
        "opened shops in Norvale, Eastmere and on the isle of Pell.",
        [
            ("What is salt?", "patience"),
            ("How often was soup salted?", "once"),
            ("How many sons had he?", "three"),
            ("Where is the third shop?", "on the isle of Pell"),
            ("What was salted twice?", "bread-dough"),
            ("What did his daughters open?", None),
        ],
    ),
    ("Rain fell.", [("What fell?", "Rain"), ("Where did it fall?", None)]),
    (
        '"Unmoored", a play in two acts, closed after nine nights; its author, Ivo Lund, kept all 400 unsold tickets.',
        [
            ("Which play closed?", "Unmoored"),
            ("Who wrote the play?", "Ivo Lund"),
            ("How many tickets were unsold?", "400"),
        ],
    ),
]


def make_vocabulary(tokenizer):
    """Special entries, letters within words, and the words of the texts. Every third word is in two pieces."""
    texts = [text for context, questions in PARAGRAPHS for text in (context, *(question for question, _ in questions))]
    words = list(dict.fromkeys(word for text in texts for word in tokenizer.tokenize(text)))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"##{letter}" for letter in string.ascii_lowercase)]
    for number, word in enumerate(words):
        half = (len(word) + 1) // 2
        pieces += [word] if number % 3 or len(word) < 4 else [word[:half], "##" + word[half:]]
    return list(dict.fromkeys(pieces))


def make_texts():
    """The texts in SQuAD 2.0's layout."""
    paragraphs = []
    for number, (context, questions) in enumerate(PARAGRAPHS):
        entries = []
        for question, answer in questions:
            answers = [] if answer is None else [{"text": answer, "answer_start": context.index(answer)}]
            entries.append(
                {
                    "id": f"q{number}-{len(entries)}",
                    "question": question,
                    "answers": answers,
                    "is_impossible": answer is None,
                }
            )
        paragraphs.append({"context": context, "qas": entries})
    return {"version": "v2.0", "data": [{"title": "made up", "paragraphs": paragraphs}]}


def write_json(name, values):
    with open(os.path.join(OUTPUT_DIR, name), "w", encoding="utf-8") as file:
        compact = name == "squad.json"
        file.write(json.dumps(values, indent=None if compact else 1, separators=(",", ":") if compact else None) + "\n")


def main():
    installed = {name: version(name) for name in VERSIONS}
    if installed != VERSIONS:
        raise SystemExit(f"reference versions are {installed}, expected {VERSIONS}")
    run_squad.FLAGS(["generate_squad"])
    vocab_file = os.path.join(OUTPUT_DIR, "squad_vocab.txt")
    with open(vocab_file, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{piece}\n" for piece in make_vocabulary(tokenization.BasicTokenizer(do_lower_case=True)))
    write_json("squad_texts.json", make_texts())

    run_squad.FLAGS.version_2_with_negative = True
    examples = run_squad.read_squad_examples(os.path.join(OUTPUT_DIR, "squad_texts.json"), is_training=True)
    tokenizer, features = tokenization.FullTokenizer(vocab_file, do_lower_case=True), []
    run_squad.convert_examples_to_features(
        examples,
        tokenizer,
        SETTINGS["max_seq_length"],
        SETTINGS["doc_stride"],
        SETTINGS["max_query_length"],
        True,
        features.append,
    )
    # For an answer with [UNK], run_squad.py returns whole words, which must not be compared.
    if any("[UNK]" in feature.tokens for feature in features):
        raise SystemExit("a word of PARAGRAPHS gives [UNK], expected pieces for every word; mend make_vocabulary")
    generator = random.Random(SEED)
    logits = [
        [[generator.randint(-24, 24) + 30 * (place == 0) for place in range(len(feature.tokens))] for _ in range(2)]
        for feature in features
    ]
    results = []
    for feature, eighths in zip(features, logits, strict=True):
        start, end = (
            [value / 8 for value in values] + [_BELOW_ALL] * (SETTINGS["max_seq_length"] - len(values))
            for values in eighths
        )
        results.append(run_squad.RawResult(feature.unique_id, start, end))

    golden = {
        "metadata": {"reference": "bert/run_squad.py", "versions": VERSIONS, "seed": SEED, "settings": SETTINGS},
        "features": [
            {
                "question": examples[feature.example_index].qas_id,
                "input_ids": feature.input_ids[: len(feature.tokens)],
                "segment_ids": feature.segment_ids[: len(feature.tokens)],
                "is_max_context": [
                    int(feature.token_is_max_context.get(place, False)) for place in range(len(feature.tokens))
                ],
                "labels": [feature.start_position, feature.end_position],
            }
            for feature in features
        ],
        "logits": logits,
    }
    for name, has_null in (("1.1", False), ("2.0", True)):
        run_squad.FLAGS.version_2_with_negative = has_null
        kept = [example for example in examples if has_null or not example.is_impossible]
        # write_predictions numbers the examples in their order, and finds their windows by this number.
        index = {example.qas_id: number for number, example in enumerate(kept)}
        kept_features = []
        for feature in features:
            qas_id = examples[feature.example_index].qas_id
            if qas_id in index:
                renumbered = run_squad.InputFeatures(**vars(feature))
                renumbered.example_index = index[qas_id]
                kept_features.append(renumbered)
        with tempfile.TemporaryDirectory() as directory:
            paths = [os.path.join(directory, file) for file in ("predictions", "nbest", "null_odds")]
            run_squad.write_predictions(
                kept, kept_features, results, SETTINGS["n_best_size"], SETTINGS["max_answer_length"], True, *paths
            )
            golden[name] = {os.path.basename(path): json.load(open(path)) for path in paths if os.path.exists(path)}
    write_json("squad.json", golden)
    size = os.path.getsize(os.path.join(OUTPUT_DIR, "squad.json"))
    print(f"{len(examples)} questions, {len(features)} windows, {size} bytes")


if __name__ == "__main__":
    main()
