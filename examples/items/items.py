"""Recommends the next film with a masked language model over films (BERT4Rec).

python -m examples.items.items --output_dir=runs/items

Each user is a document: the films in the order in which the user rated them. The last film is for the test, and the one
before it chooses the checkpoint.
"""

import importlib.util
import os
import pathlib
import sys

import numpy as np
from absl import flags

from examples.common import keep_scores, keep_settings, likeliest, run, run_with_flags
from examples.comparisons import over_examples, spread
from keras_bert_app import load_pretrained
from pipelines import BertTokenizer

_TOP = 10
_LENGTH = 64  # [CLS], 61 films, [MASK], [SEP]


def main(directory, data_file="", steps=3000, num_seeds=3, num_checkpoints=6):
    users = read_users(data_file or films_of_recbole())
    keep_settings(directory, data_file=data_file, steps=steps, num_checkpoints=num_checkpoints)
    with open(f"{directory}/users.txt", "w", encoding="utf-8") as file:
        file.writelines(" ".join(films[:-2]) + "\n\n" for films in users)
    if not os.path.exists(f"{directory}/films.txt"):
        vocab_file = f"{directory}/films.txt"
        run("learn_vocab", tokenizer="symbols", input_files=f"{directory}/users.txt", vocab_file=vocab_file)
    scores = {"the most popular films": [metrics(users, popularity(users))]}
    scores["Markov chain"] = [metrics(users, markov(users))]
    scores["BERT4Rec here"], chosen = [], []
    for seed in range(1, num_seeds + 1):
        each = max(steps // num_checkpoints, 1)
        workdir = pretrain(directory, seed, steps, each)
        paths = sorted(pathlib.Path(workdir, "checkpoints").glob("step-*"))
        # A run that was stopped has one more checkpoint, which must not be chosen.
        checkpoints = [path for path in paths if int(path.name.partition("-")[2]) % each == 0]
        # The film before the last one chooses the checkpoint; the last one is scored once.
        before_last = [films[:-1] for films in users]
        validated = [metrics(before_last, recommended(path, users, -2))[:, 1].mean() for path in checkpoints]
        best = checkpoints[int(np.argmax(validated))]
        chosen.append(best.name)
        scores["BERT4Rec here"].append(metrics(users, recommended(best, users, -1)))
    report(directory, scores, chosen)


def films_of_recbole():
    """The file of MovieLens-100k in the installed package recbole, which need not be imported."""
    spec = importlib.util.find_spec("recbole")
    if spec is None:
        sys.exit("recbole is not installed: pip install --no-deps recbole==1.2.1, or give --data_file")
    return os.path.join(spec.submodule_search_locations[0], "dataset_example", "ml-100k", "ml-100k.inter")


def read_users(path):
    """The films of each user in the order of time. The file has a header, and user, film, rating, time in each line."""
    users = {}
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number and line.strip():
                if line.count("\t") != 3:
                    sys.exit(f"{path}:{number + 1}: expected user, film, rating and time, with tabs between them")
                user, film, _, time = line.split("\t")
                users.setdefault(user, []).append((float(time), number, film))
    return [[film for _, _, film in sorted(events)] for events in users.values() if len(events) > 3]


def pretrain(directory, seed, steps, save_steps):
    """Trains a masked language model of films, or resumes it. Returns its directory."""
    workdir = f"{directory}/seed-{seed}"
    run(
        "pretrain",
        workdir=workdir,
        input_files=f"{directory}/users.txt",
        vocab_file=f"{directory}/films.txt",
        tokenizer="symbols",
        config="tiny",
        sentence_objective="none",
        masked_lm_prob=0.2,
        max_seq_length=_LENGTH,
        global_batch_size=64,
        optimizer="muon",
        learning_rate=3e-3,
        hidden_dropout_prob=0.2,
        attention_probs_dropout_prob=0.2,
        holdout_fraction=0,
        num_train_steps=steps,
        save_checkpoints_steps=save_steps,
        keep_every_steps=save_steps,
        seed=seed,
    )
    return workdir


def recommended(checkpoint, users, target):
    """Yields all films in the order in which the model expects them at the place `target` of each user."""
    model = load_pretrained(str(checkpoint), allow_missing=("pooler", "next_sentence"))
    tokenizer = BertTokenizer.from_directory(str(checkpoint.parents[1]), special_tokens_in_text=True)
    for start in range(0, len(users), 100):
        histories = [films[:target][3 - _LENGTH :] for films in users[start : start + 100]]
        rows = tokenizer.pack([" ".join([*films, "[MASK]"]) for films in histories], seq_length=_LENGTH)
        yield from likeliest(model, tokenizer, rows, tokenizer.vocab_size).tolist()


def popularity(users):
    films, counts = np.unique([film for films in users for film in films[:-2]], return_counts=True)
    return [films[np.argsort(-counts, kind="stable")].tolist()] * len(users)


def markov(users):
    """The films that most often follow the film before, then the most popular ones."""
    following = {}
    for films in users:
        for first, second in zip(films[:-3], films[1:-2], strict=True):
            following.setdefault(first, []).append(second)
    popular = popularity(users)[0]
    for films in users:
        names, counts = np.unique(following.get(films[-2], []), return_counts=True)
        best = names[np.argsort(-counts, kind="stable")].tolist()
        yield [*best, *(film for film in popular if film not in best)]


def metrics(users, ranked):
    """float [users, 4]: HR@10 and nDCG@10 of each user's last film, among all films, and among those not rated yet."""
    rows = []
    for films, ranking in zip(users, ranked, strict=True):
        seen, row = set(films[:-1]), []
        for best in (ranking[:_TOP], [film for film in ranking if film not in seen][:_TOP]):
            row += [1.0, 1 / np.log2(best.index(films[-1]) + 2)] if films[-1] in best else [0.0, 0.0]
        rows.append(row)
    return np.array(rows)


def report(directory, scores, chosen):
    print("\n| test | all films: HR@10 | nDCG@10 | films not rated yet: HR@10 | nDCG@10 |\n|---|---|---|---|---|")
    results = {name: np.mean(runs, axis=1).tolist() for name, runs in scores.items()}
    for name, runs in results.items():
        cells = [spread(column) for column in zip(*runs, strict=True)]
        print(f"| {name} | {' | '.join(cells)} |")
    gains = np.mean(scores["BERT4Rec here"], axis=0) - scores["Markov chain"][0]  # [users, 4]
    low, high = over_examples(scores["BERT4Rec here"], scores["Markov chain"])
    cells = [f"{m:+.4f} ({a:+.4f} to {b:+.4f})" for m, a, b in zip(gains.mean(axis=0), low, high, strict=True)]
    print(f"| difference to the Markov chain, 95 % interval over users | {' | '.join(cells)} |")
    print(f"checkpoints chosen by the film before the last one: {', '.join(chosen)}")
    keep_scores(f"{directory}/results.json", {**results, "gain": cells, "chosen": chosen})


if __name__ == "__main__":
    flags.DEFINE_string("output_dir", "runs/items", "Where texts, runs and results go.")
    flags.DEFINE_string("data_file", "", "Ratings as recbole has them; by default MovieLens-100k of that package.")
    flags.DEFINE_integer("steps", 3000, "Training steps of a run.", lower_bound=1)
    flags.DEFINE_integer("num_seeds", 3, "Runs.", lower_bound=1)
    run_with_flags(main, "data_file", "steps", "num_seeds")
