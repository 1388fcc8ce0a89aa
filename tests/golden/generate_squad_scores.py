"""Golden scores of answers by SQuAD's official evaluate-v1.1.py and evaluate-v2.0.py.

Reference: tf-models-official 2.20.0, official/nlp/tools/squad_evaluate_v1_1.py and squad_evaluate_v2_0.py, which are
the official scripts as functions. See README.md beside this file for the environment.

    python tests/golden/generate_squad_scores.py

Writes squad_scores.json beside this file, with metadata, questions and scores. A question has answers (invented, [] for
none), given ("" for no answer), not_null and null_odds. The scores have the names of the scripts: "1.1" scores not_null
for the questions that have an answer, "2.0" scores given, and "2.0 best" scores not_null with null_odds.
"""

import json
import os
import random
from importlib.metadata import version

from official.nlp.tools import squad_evaluate_v1_1, squad_evaluate_v2_0

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "squad_scores.json")
VERSIONS = {"tf-models-official": "2.20.0"}
SEED, NUM_QUESTIONS = 5, 60
WORDS = (
    "The a an the harbour Harbour, stone-bridge of 1,874 1874 Ångström's été Brücke 鐵橋 . -- an. THEN (two) two"
).split()


def make_text(generator):
    return " ".join(generator.choices(WORDS, k=generator.randint(1, 4)))


def make_question(generator, number):
    """A question with its answers. The given answer is right, a part of the right one, something else, or nothing."""
    answers = [] if number % 3 == 2 else [make_text(generator) for _ in range(generator.randint(1, 3))]
    answer = make_text(generator)
    if answers and generator.random() < 0.7:
        words = generator.choice(answers).split()
        answer = "  ".join(words[generator.randint(0, len(words) - 1) :]).upper()
    null_odds = generator.randint(-200, 200) / 64
    return {
        "id": f"q{number}",
        "answers": answers,
        "given": "" if null_odds > 0 else answer,
        "not_null": answer,
        "null_odds": null_odds,
    }


def main():
    installed = {name: version(name) for name in VERSIONS}
    if installed != VERSIONS:
        raise SystemExit(f"reference versions are {installed}, expected {VERSIONS}")
    generator = random.Random(SEED)
    questions = [make_question(generator, number) for number in range(NUM_QUESTIONS)]
    # Nothing remains of these answers without articles and punctuation.
    questions += [
        {"id": "empty", "answers": ["the"], "given": "a", "not_null": "a", "null_odds": -0.5},
        {"id": "partly-empty", "answers": ["--", "two"], "given": "", "not_null": "an", "null_odds": 0.5},
    ]

    def dataset(kept):
        return [
            {
                "paragraphs": [
                    {"qas": [{"id": one["id"], "answers": [{"text": text} for text in one["answers"]]} for one in kept]}
                ]
            }
        ]

    def by_id(key, kept=questions):
        return {one["id"]: one[key] for one in kept}

    answered = [one for one in questions if one["answers"]]
    golden = {
        "metadata": {
            "reference": "official/nlp/tools/squad_evaluate_v1_1.py, squad_evaluate_v2_0.py",
            "versions": VERSIONS,
            "seed": SEED,
        },
        "questions": questions,
        "1.1": squad_evaluate_v1_1.evaluate(dataset(answered), by_id("not_null", answered)),
        "2.0": squad_evaluate_v2_0.evaluate(dataset(questions), by_id("given")),
        "2.0 best": squad_evaluate_v2_0.evaluate(dataset(questions), by_id("not_null"), by_id("null_odds")),
    }
    with open(PATH, "w", encoding="utf-8") as file:
        file.write(json.dumps(golden, indent=1) + "\n")
    print(PATH, os.path.getsize(PATH), "bytes", len(questions), "questions")


if __name__ == "__main__":
    main()
