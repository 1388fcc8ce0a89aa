"""Masked LM on a task's own texts before the task itself (Howard and Ruder 2018, ULMFiT, section 3.2)."""

import os

import tensorflow as tf

from keras_bert_app.interop import load
from keras_bert_app.pretraining_config import PretrainingConfig
from keras_bert_app.runs import workdir as workdirs
from keras_bert_app.tasks import registry
from keras_bert_app.training import launch
from keras_bert_app.training import strategy as strategies

# Texts that stand together in a document: rows of masked LM are filled from one document.
_TEXTS_A_DOCUMENT = 50
# Fields of the run that the masked LM is tuned with too.
_SHARED = ("global_batch_size", "gradient_accumulation_steps", "precision", "seed", "jit_compile", "max_seq_length", "log_steps")


def tuned(directory, run, model_config, vocabulary_bytes, initial, strategy, stream=None):
    """(Weights, lines) after some steps of masked LM on the training texts; a tuning that is done is not done again.

    Args:
        directory: where the tuning lives: texts.txt, and run/, a work directory of pretrain. run: FinetuningConfig.
        initial: (Weights, lines) to start from, or None for random ones. strategy: tf.distribute.Strategy.
    """
    workdir = os.path.join(directory, "run")
    texts_file = os.path.join(directory, "texts.txt")
    if strategies.is_chief(strategy) and not tf.io.gfile.exists(texts_file):
        task = registry.find(run.task)
        _write_texts(texts_file, task.family.texts(task.read_split(run.data_dir, "train", run, most=run.max_train_examples)))
    pretraining = PretrainingConfig(
        input_files=(os.path.abspath(texts_file),), input_format="sentences", sentence_objective="none",
        num_train_steps=run.mlm_tuning_steps, learning_rate=run.learning_rate, save_checkpoints_steps=run.mlm_tuning_steps,
        eval_steps=run.mlm_tuning_steps, allow_missing=("masked_lm",),
        init_checkpoint=run.init_checkpoint if initial else "", **{name: getattr(run, name) for name in _SHARED}).resolved()
    if not workdirs.is_started(workdir) or not _is_done(workdir, run.mlm_tuning_steps):
        launch.launch(workdir, model_config, pretraining, vocabulary_bytes, initial, strategy, stream)
    strategies.wait_for_all(strategy)  # until the chief has written the last checkpoint
    return load.load_weights(workdir, allow_missing=("pooler", "masked_lm", "next_sentence"))


def _is_done(workdir, num_steps):
    return tf.io.gfile.exists(os.path.join(workdir, "checkpoints", f"step-{num_steps:08d}"))


def _write_texts(path, texts):
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.gfile.GFile(path + ".tmp", "w") as file:
        for number, text in enumerate(texts):
            if number and number % _TEXTS_A_DOCUMENT == 0:
                file.write("\n")
            file.write(" ".join(text.split()) + "\n")
    tf.io.gfile.rename(path + ".tmp", path, overwrite=True)
