"""What the examples share: commands, checks, articles, and the likeliest symbols at a [MASK]."""

import glob
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys

import numpy as np
from absl import app, flags, logging

from keras_bert_app import Interrupted, UserError
from pipelines import DataError

# wikiextractor writes the title again as the first line of the text, which is left out here.
_ARTICLE = re.compile(r'<doc [^>]*title="([^"]*)"[^>]*>\n[^\n]*\n(.*?)</doc>', re.DOTALL)


def run(command, **flags):
    """Runs a command of the package, such as run("learn_vocab", vocab_file="codes.txt").

    A command that fails prints the reason. The program then ends with the exit code of the command. SIGTERM ends the
    command, which saves its work, and then the program.
    """
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    running, stopped = [], []

    def stop(number, _):
        stopped.append(number)
        for process in running:
            process.terminate()

    before = signal.signal(signal.SIGTERM, stop)
    try:
        with subprocess.Popen([sys.executable, "-m", f"keras_bert_app.cli.{command}", *arguments]) as process:
            running.append(process)
            if stopped:  # while the command began
                process.terminate()
            try:
                code = process.wait()
            except KeyboardInterrupt:
                process.wait()  # Ctrl-C reached the command, too. It saves its work and ends.
                raise
    finally:
        signal.signal(signal.SIGTERM, before)
    if stopped:
        sys.exit(128 + signal.SIGTERM)
    if code:
        sys.exit(code if code > 0 else f"{command} was ended by signal {-code}; the same command continues")


def run_with_flags(main, *names):
    """Runs main(output_dir, ...) with the values of these flags. A mistake of the user ends it with one line."""

    def started(_):
        try:
            logging.set_verbosity(logging.ERROR)  # TensorFlow's savers log through absl
            main(flags.FLAGS.output_dir, **{name: getattr(flags.FLAGS, name) for name in names})
        except KeyboardInterrupt:
            print("stopped; the same command continues", file=sys.stderr)
            sys.exit(130)
        except Interrupted as stop:  # finetune has saved its work
            print("stopped; the same command continues", file=sys.stderr)
            sys.exit(128 + stop.number)
        except (UserError, DataError) as error:
            sys.exit(str(error))
        except OSError as error:
            sys.exit(
                f"{error.filename or 'a file'}: {error.strerror or error}; give a path that can be read or written"
            )

    app.run(started)


def need_files(*paths):
    """Ends the program if a file or a folder is missing. Call it before the training."""
    for path in paths:
        if not os.path.exists(path):
            sys.exit(f"{path}: no such file or folder; the README of the example names the files that it reads")


def read_articles(wiki):
    """[(title, text)] of the files that wikiextractor wrote. Articles without a text are left out."""
    paths, articles = sorted(glob.glob(wiki)), []
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                articles += [(title, text) for title, text in _ARTICLE.findall(file.read()) if text.strip()]
        except UnicodeDecodeError:
            sys.exit(f"{path}: is no text in UTF-8; expected what wikiextractor writes without --compress")
    if not articles:
        sys.exit(f"--wiki={wiki}: {len(paths)} files, no article in them; expected <doc ...> of wikiextractor")
    return articles


def digest(articles):
    """A short string that differs for other articles."""
    return hashlib.sha256(repr(articles).encode()).hexdigest()[:16]


def sample(mentions, most):
    """Draws `most` of the mentions at random, or takes all. Ends the program if there are fewer than most / 4."""
    if len(mentions) < max(1, most // 4):
        needs = f"expected {most // 4:,} or more; give more files and another --output_dir"
        sys.exit(f"--wiki has {len(mentions):,} mentions to hide, {needs}")
    return random.Random(0).sample(mentions, min(most, len(mentions)))


def small_pretraining(steps, precision):
    """Flags with which a small model learns fast on a CPU: the recipe small_budget, with a number of steps."""
    return {
        "recipe": "small_budget",
        "precision": precision,
        "num_train_steps": steps,
        "save_checkpoints_steps": max(steps // 8, 1),
    }


def define_precision():
    """Defines the flag --precision of an example."""
    flags.DEFINE_enum(
        "precision",
        "auto",
        ["auto", "float32", "bfloat16"],
        "Compute type. auto is float32 on a CPU; bfloat16 is faster on a CPU with AMX.",
    )


def define_finetuning():
    """Defines flags of an example that fine-tunes a given model: their right values depend on the model."""
    define_precision()
    flags.DEFINE_float("learning_rate", 5e-5, "Peak learning rate. Models smaller than base need a higher one.")
    flags.DEFINE_enum(
        "pooling", "cls", ["cls", "mean", "max", "concat"], "The vector of a text. Sentence encoders need mean."
    )


def keep_settings(directory, **settings):
    """Writes the settings of a program's directory. Ends the program if there are results of others already."""
    path = f"{directory}/settings.json"
    os.makedirs(directory, exist_ok=True)
    if not os.path.exists(path) or os.listdir(directory) == ["settings.json"]:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(settings, file, indent=1)
    with open(path, encoding="utf-8") as file:
        earlier = json.load(file)
    if earlier != json.loads(json.dumps(settings)):
        sys.exit(f"{path} has {earlier}, and this start has {settings}; give another --output_dir")


def scores_so_far(path):
    """The content of a results file; {} if there is no file yet."""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def keep_scores(path, scores):
    """Writes a results file as a whole, so that a stopped program leaves the old file."""
    with open(f"{path}.part", "w", encoding="utf-8") as file:
        json.dump(scores, file, indent=1)
    os.replace(f"{path}.part", path)


def once(path, make):
    """The content of a JSON file. If there is none, it is what make() returns, and the file is written."""
    if not os.path.exists(path):
        keep_scores(path, make())
    return scores_so_far(path)


def minutes(workdir):
    """The minutes that a pre-training took, without its start."""
    with open(f"{workdir}/metrics.jsonl", encoding="utf-8") as lines:
        return max(json.loads(line).get("seconds", 0.0) for line in lines) / 60


def likeliest(model, tokenizer, rows, count, number=0):
    """The `count` likeliest symbols at mask `number` of each row, strings [B, count]. Special pieces do not count."""
    is_mask = rows["input_word_ids"].numpy() == tokenizer.mask_id
    places = np.array([np.flatnonzero(row)[number] for row in is_mask], np.int32)
    logits = model({**rows, "masked_lm_positions": places[:, None]})["mlm_logits"].numpy()[:, 0]
    logits[:, :5] = -np.inf
    return np.array(tokenizer.vocabulary)[np.argsort(-logits, axis=1)[:, :count]]
