"""Writes minimal pairs of number agreement from an English treebank, for `analyze --what=minimal_pairs`.

python -m benchmarks.finetuning.agreement_pairs --conllu=en_ewt-ud-train.conllu --output_file=pairs.tsv

The good sentence has a finite is/are, was/were, has/have or does/do whose subject is one noun that agrees with it.
The bad sentence has the verb in the other number. Half of the good verbs are singular and half are plural, so a
preference for the more frequent form gives no advantage. The script takes the first pairs of the file. `analyze`
reads the pairs with --pairs_file.
"""

from absl import flags

from keras_bert_app.cli.common import app

flags.DEFINE_string("conllu", "", "Treebank with morphological features.")
flags.DEFINE_string("output_file", "", "File to write; each line has a good sentence, a tab and a bad sentence.")
_MOST = flags.DEFINE_integer("most", 200, "Largest number of pairs.", lower_bound=2)

_PLURAL = {"is": "are", "was": "were", "has": "have", "does": "do"}
_OTHER = {**_PLURAL, **{plural: singular for singular, plural in _PLURAL.items()}}
_LENGTHS = range(5, 21)
# Columns of CoNLL-U.
_ID, _FORM, _UPOS, _FEATS, _HEAD, _DEPREL = 0, 1, 3, 5, 6, 7


def main(arguments):
    del arguments
    conllu, output_file = app.required("conllu", "output_file")
    pairs = {True: {}, False: {}}  # whether the verb is plural -> distinct pairs, as keys
    with open(conllu, encoding="utf-8") as file:
        for block in file.read().split("\n\n"):
            words = [line.split("\t") for line in block.splitlines() if line.split("\t")[0].isdigit()]
            if len(words) in _LENGTHS:
                for at in range(len(words)):
                    if _agrees(words, at):
                        forms = [word[_FORM] for word in words]
                        bad = [*forms[:at], _OTHER[forms[at]], *forms[at + 1 :]]
                        pairs[forms[at] in _PLURAL.values()][" ".join(forms), " ".join(bad)] = None
    each = min(len(pairs[True]), len(pairs[False]), _MOST.value // 2)
    chosen = [pair for pairs_of_number in pairs.values() for pair in list(pairs_of_number)[:each]]
    with open(output_file, "w", encoding="utf-8") as file:
        file.writelines(f"{good}\t{bad}\n" for good, bad in chosen)
    print(f"{output_file}: {len(chosen):,} pairs, {each:,} with a singular and {each:,} with a plural good verb")


def _agrees(words, at):
    """Whether word `at` is a finite form of _OTHER that agrees with its subject, a single noun without conjuncts."""
    verb = words[at]
    if verb[_FORM] not in _OTHER or "VerbForm=Fin" not in verb[_FEATS]:
        return False
    governor = verb[_HEAD] if verb[_DEPREL].startswith(("aux", "cop")) else verb[_ID]
    subjects = [word for word in words if word[_HEAD] == governor and word[_DEPREL] in ("nsubj", "nsubj:pass")]
    if len(subjects) != 1 or subjects[0][_UPOS] not in ("NOUN", "PROPN"):
        return False
    if any(word[_HEAD] == subjects[0][_ID] and word[_DEPREL] == "conj" for word in words):
        return False
    is_plural = verb[_FORM] in _PLURAL.values()
    return f"Number={'Plur' if is_plural else 'Sing'}" in subjects[0][_FEATS]


if __name__ == "__main__":
    app.run(main, __doc__)
