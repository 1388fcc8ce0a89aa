"""From what was asked for to one fine-tuning run, or one for each of several seeds."""

import os

from keras_bert_app.errors import UserError
from keras_bert_app.finetuning_config import FinetuningConfig
from keras_bert_app.interop import load
from keras_bert_app.runs import workdir as workdirs
from keras_bert_app.tasks import registry, results
from keras_bert_app.tasks.finetune import finetune
from keras_bert_app.training import strategy as strategies
from pipelines import casing
from pipelines.vocab import checked_pieces

# What --init_checkpoint may lack: the heads of pre-training are not used, and a pooler can be learned.
_NOT_NEEDED = ("pooler", "masked_lm", "next_sentence")


def launch(workdir, wanted, num_seeds=1, start=(None, False, None, None), stream=None):
    """Starts or resumes the runs of a work directory.

    Args:
        wanted: dict of the fields of FinetuningConfig that were asked for; the task's defaults and then the general ones
            fill in the rest. num_seeds: how many runs; several live in WORKDIR/seed-N.
        start: (init_checkpoint, whether its weights are taken, BertConfig, vocabulary bytes); the latter two in place of
            the former. stream: where progress goes; standard output by default.

    Returns:
        dict of results: of the run, or over the seeds.

    Raises:
        UserError: something does not fit; Interrupted: a signal came, the run is saved.
    """
    first = _directory(workdir, wanted.get("seed", FinetuningConfig.seed), num_seeds)
    is_started = workdirs.is_started(first)
    if not wanted.get("task") and not is_started:
        raise UserError("--task is missing; --list_tasks names all")
    if not wanted.get("data_dir") and not is_started:
        raise UserError("--data_dir is missing; it is the directory of the task's files")
    init_checkpoint, takes_weights, model_config, vocabulary = start
    loaded = None
    if init_checkpoint and not is_started:
        loaded = _load(init_checkpoint)
    if not is_started:
        if loaded:
            model_config, vocabulary = loaded[0].config, loaded[0].vocabulary
        elif model_config is None:
            raise UserError("--init_checkpoint is missing; give a pre-trained model, or --config and --vocab_file for one "
                            "from scratch")
        wanted = {**registry.find(wanted["task"]).defaults, **wanted}
        if not takes_weights:
            wanted["init_checkpoint"] = ""
    # The devices are found once: TensorFlow does not let go of them.
    strategy = strategies.make_strategy(wanted.get("strategy", "auto"))
    found = []
    for number in range(num_seeds):
        seed = wanted.get("seed", FinetuningConfig.seed) + number
        directory = _directory(workdir, seed, num_seeds)
        run_config, run = model_config, {**wanted, "seed": seed}
        if workdirs.is_started(directory):
            run_config, run = workdirs.check_resumable(directory, None, run, vocabulary, run_class=FinetuningConfig)
            run_vocabulary = workdirs.read_vocabulary(directory)
            if loaded is None and run.init_checkpoint and not workdirs.has_checkpoint(directory):
                loaded = _load(run.init_checkpoint)
        else:
            run, run_vocabulary = FinetuningConfig(**run), vocabulary
        run.checked_against(run_config)
        found.append(finetune(directory, run_config, run, run_vocabulary, initial=loaded if run.init_checkpoint else None,
                              strategy=strategy, stream=stream))
    if num_seeds == 1:
        return found[0]
    figures = results.over_seeds(found)
    results.write_json(os.path.join(workdir, "results.json"), figures)
    for line in results.seeds_summary(figures):
        print(line, file=stream, flush=True)
    return figures


def _directory(workdir, seed, num_seeds):
    return workdir if num_seeds == 1 else os.path.join(workdir, f"seed-{seed}")


def _load(init_checkpoint):
    weights, lines = load.load_weights(init_checkpoint, allow_missing=_NOT_NEEDED)
    if weights.vocabulary is None:
        raise UserError(f"--init_checkpoint={init_checkpoint}: has no vocabulary; put its vocab.txt beside the weights, or "
                        "convert it with --vocab_file")
    casing.verify(checked_pieces(weights.vocabulary, f"of {init_checkpoint}"), weights.config.do_lower_case,
                  f"of {init_checkpoint}")
    return weights, lines
