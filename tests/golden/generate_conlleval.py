"""Golden counts and spans of entities in well-formed and ill-formed tag sequences.

References: PyPI conlleval 0.2 for the counts, and PyPI seqeval 1.2.2 for the
spans. conlleval is a port of the CoNLL shared tasks' script of 2004-01-26, and
also reads E- and S-. See README.md beside this file for the environment.

    python tests/golden/generate_conlleval.py

Writes conlleval.json beside this file:
  metadata   versions and seed
  counts     list of {"letters", "right", "predicted", "counts", "accuracy",
             "entities"}: sentences of random tags as strings. conlleval gives
             the counts by type, [in the right tags, predicted, correct], and
             the share of equal tags. seqeval's default reading gives the
             entities of each right sentence, [type, first word, last word]
  schemes    list of {"scheme", "sentences", "entities"}: well-formed tags of
             random entities. seqeval's strict reading of the scheme gives the
             entities
"""

import json
import os
import random
from importlib.metadata import version

import conlleval
from seqeval import scheme as schemes
from seqeval.metrics.sequence_labeling import get_entities

OUTPUT_DIR = os.path.dirname(os.path.abspath(__file__))
SEED = 20030501
VERSIONS = {"conlleval": "0.2", "seqeval": "1.2.2"}
# A type may contain a dash, as "a-b" does.
KINDS = ("PER", "LOC", "a-b")
CASES_A_LETTER_SET, SENTENCES_A_CASE = 12, 5
LETTER_SETS = ("BI", "I", "IE", "BIES", "BS")
# Our name of a scheme -> seqeval's class.
STRICT = {
    "IOB1": schemes.IOB1,
    "IOB2": schemes.IOB2,
    "IOE2": schemes.IOE2,
    "BIOES": schemes.IOBES,
    "BILOU": schemes.BILOU,
}


def random_tags(rng, letters, length):
    return [rng.choice((*letters, "O")) for _ in range(length)]


def with_kinds(rng, letters):
    """Tags for letters. The type changes rarely, so that some entities have several words."""
    kind, tags = rng.choice(KINDS), []
    for letter in letters:
        if rng.random() < 0.25:
            kind = rng.choice(KINDS)
        tags.append(letter if letter == "O" else f"{letter}-{kind}")
    return tags


def corrupted(rng, tags, letters):
    """The tags with a few replaced by random ones, so that some entities stay right."""
    drawn = with_kinds(rng, random_tags(rng, letters, len(tags)))
    return [new if rng.random() < 0.2 else tag for tag, new in zip(tags, drawn, strict=True)]


def counted_case(rng, letters):
    right = [with_kinds(rng, random_tags(rng, letters, rng.randint(1, 9))) for _ in range(SENTENCES_A_CASE)]
    predicted = [corrupted(rng, tags, letters) for tags in right]
    lines = []
    for tags, answers in zip(right, predicted, strict=True):
        lines += [f"word {tag} {answer}" for tag, answer in zip(tags, answers, strict=True)] + [""]
    report = conlleval.evaluate(lines)
    stats = {kind: values["stats"] for kind, values in report["slots"]["chunks"].items()}
    tag_stats = report["overall"]["tags"]["stats"]
    return {
        "letters": letters,
        "right": [" ".join(tags) for tags in right],
        "predicted": [" ".join(tags) for tags in predicted],
        "counts": {
            kind: [one["gold"], one["pred"], one["correct"]]
            for kind, one in sorted(stats.items())
            if one["gold"] or one["pred"]
        },
        "accuracy": tag_stats["correct"] / tag_stats["gold"],
        "entities": [get_entities(tags) for tags in right],
    }


def tags_of(entities, length, scheme):
    """Well-formed tags of entities. seqeval's strict reading must return the same entities; scheme_case checks this."""
    tags = ["O"] * length
    ends = {(kind, last) for kind, _, last in entities}
    for kind, first, last in entities:
        for at in range(first, last + 1):
            is_first, is_last = at == first, at == last
            letter = {
                "IOB1": "B" if is_first and (kind, first - 1) in ends else "I",
                "IOB2": "B" if is_first else "I",
                "IOE2": "E" if is_last else "I",
                "BIOES": "S" if is_first and is_last else "B" if is_first else "E" if is_last else "I",
                "BILOU": "U" if is_first and is_last else "B" if is_first else "L" if is_last else "I",
            }[scheme]
            tags[at] = f"{letter}-{kind}"
    return tags


def random_entities(rng):
    """(entities, number of words). Entities have one to four words and are often adjacent."""
    entities, at = [], rng.randint(0, 1)
    for _ in range(rng.randint(1, 4)):
        size = rng.randint(1, 4)
        entities.append((rng.choice(KINDS[:2]), at, at + size - 1))
        at += size + rng.choice((0, 0, 1, 2))
    return entities, at + rng.randint(0, 1)


def scheme_case(rng, scheme):
    sentences, kept = [], []
    for _ in range(8):
        entities, length = random_entities(rng)
        tags = tags_of(entities, length, scheme)
        (read,) = schemes.Entities([tags], STRICT[scheme]).entities
        # The end of an entity is exclusive here, and inclusive in get_entities.
        entities_read = [(entity.tag, entity.start, entity.end - 1) for entity in read]
        assert entities_read == entities, (scheme, tags, entities_read)
        sentences.append(" ".join(tags))
        kept.append(entities_read)
    return {"scheme": scheme, "sentences": sentences, "entities": kept}


def main():
    installed = {name: version(name) for name in VERSIONS}
    if installed != VERSIONS:
        raise SystemExit(f"reference versions are {installed}, expected {VERSIONS}")
    rng = random.Random(SEED)
    golden = {
        "metadata": {"versions": VERSIONS, "seed": SEED},
        "counts": [counted_case(rng, letters) for letters in LETTER_SETS for _ in range(CASES_A_LETTER_SET)],
        "schemes": [scheme_case(rng, scheme) for scheme in STRICT],
    }
    with open(os.path.join(OUTPUT_DIR, "conlleval.json"), "w", encoding="utf-8") as file:
        parts = [f'"metadata": {json.dumps(golden["metadata"])}']
        for name in ("counts", "schemes"):
            rows = ",\n".join(json.dumps(case) for case in golden[name])
            parts.append(f'"{name}": [\n{rows}\n]')
        file.write("{" + ",\n".join(parts) + "}\n")


if __name__ == "__main__":
    main()
