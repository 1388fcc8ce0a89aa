"""Flags and values of other tools, such as transformers' Trainer, with the names that they have here."""

from collections.abc import Collection

from absl import flags

from keras_bert_app.errors import UserError

# Flag of another tool -> flags of this package, in the order of preference. The advice names the first one that the
# command has.
_NAMES = {
    "lr": ("learning_rate",),
    "batch_size": ("global_batch_size",),
    "train_batch_size": ("global_batch_size",),
    "eval_batch_size": ("global_batch_size",),
    "per_device_train_batch_size": ("global_batch_size",),
    "per_device_eval_batch_size": ("global_batch_size",),
    "epochs": ("num_train_epochs", "num_train_steps"),
    "num_epochs": ("num_train_epochs", "num_train_steps"),
    "num_train_epochs": ("num_train_steps",),
    "steps": ("num_train_steps",),
    "max_steps": ("num_train_steps",),
    "train_steps": ("num_train_steps",),
    "output_dir": ("export_dir", "output_file", "output", "workdir", "vocab_file"),
    "output": ("output_dir", "output_file", "export_dir", "workdir"),
    "model_dir": ("saved_model", "workdir", "model_base_path"),
    "model": ("init_checkpoint", "saved_model", "input", "workdir"),
    "model_name": ("init_checkpoint", "saved_model", "input", "workdir"),
    "model_name_or_path": ("init_checkpoint", "saved_model", "input", "workdir"),
    "pretrained_model_name_or_path": ("init_checkpoint", "saved_model", "input", "workdir"),
    "bert_config_file": ("config",),
    "config_name": ("config",),
    "tokenizer_name": ("vocab_file",),
    "vocab": ("vocab_file",),
    "max_length": ("max_seq_length",),
    "max_len": ("max_seq_length",),
    "max_seq_len": ("max_seq_length",),
    "block_size": ("max_seq_length",),
    "mlm_probability": ("masked_lm_prob",),
    "warmup_steps": ("num_warmup_steps",),
    "weight_decay": ("weight_decay_rate",),
    "adam_beta1": ("adam_beta_1",),
    "adam_beta2": ("adam_beta_2",),
    "max_grad_norm": ("clip_norm",),
    "dropout": ("hidden_dropout_prob", "encoder_dropout"),
    "logging_steps": ("log_steps",),
    "save_steps": ("save_checkpoints_steps",),
    "save_total_limit": ("keep_checkpoints",),
    "lr_scheduler_type": ("learning_rate_schedule",),
    "optim": ("optimizer",),
    "task_name": ("task",),
    "dataset": ("data_dir", "input_files", "corpus_dir", "input_file"),
    "data": ("data_dir", "input_files", "corpus_dir", "input_file"),
    "train_file": ("data_dir", "input_files"),
    "input_file": ("input_files", "data_dir"),
    "input_files": ("input_file",),
    "input": ("input_files", "input_file", "data_dir"),
    "fp16": ("precision=auto",),
    "bf16": ("precision=bfloat16",),
    "amp": ("precision=auto",),
    "mixed_precision": ("precision=auto",),
    "overwrite_output_dir": ("overwrite",),
    "force": ("overwrite",),
    "init_checkpoint": ("saved_model",),
    "port": ("rest_api_port",),
    "host": ("rest_api_host",),
}
_GPUS = "GPUs that TensorFlow sees are used automatically (--strategy=auto, the default)"
# Flag of another tool -> why it is not needed in commands that train or answer.
_NEEDLESS = {
    **dict.fromkeys(("gpu", "gpus", "num_gpus", "n_gpu", "device", "cuda", "use_gpu"), _GPUS),
    "no_cuda": "set CUDA_VISIBLE_DEVICES=-1 in the environment to hide the GPUs",
    "use_tpu": "--strategy=tpu uses a TPU",
    "tpu_name": "--strategy=tpu uses a TPU",
    "resume": "the same command continues the run of its --workdir",
    "resume_from_checkpoint": "the same command continues the run of its --workdir",
    **dict.fromkeys(
        ("do_train", "do_eval", "do_predict"),
        "finetune trains and scores; evaluate and predict are commands of their own",
    ),
}
# (flag of another tool, our flag) -> the difference between them
_MORE = {
    **dict.fromkeys(
        (("epochs", "num_train_steps"), ("num_train_epochs", "num_train_steps")), ", a number of batches, not of passes"
    ),
    ("init_checkpoint", "saved_model"): "; export writes one",
}
# (flag, values of other tools in lower case, the answer)
_VALUES = (
    ("strategy", ("gpu", "gpus", "cuda", "multi_gpu", "multi-gpu", "ddp", "dp"), f"{_GPUS}; leave it out"),
    ("strategy", ("cpu",), "a machine without a GPU uses its CPU; CUDA_VISIBLE_DEVICES=-1 hides GPUs; leave it out"),
    (
        "precision",
        ("fp16", "16", "half", "mixed", "mixed_float16", "amp"),
        "here it is --precision=auto, which takes bfloat16 or float16 according to the GPU, or --precision=float16",
    ),
    ("precision", ("bf16", "mixed_bfloat16"), "here it is --precision=bfloat16"),
    ("precision", ("fp32", "32", "full"), "here it is --precision=float32"),
)


def advice(name: str, known: Collection[str]) -> str:
    """Gives advice about an unknown flag that another tool has.

    Args:
        name: str. The name that the user gave.
        known: collection of str. The names of the command's flags.

    Returns:
        str: one sentence, or "" if there is no advice.
    """
    for ours in _NAMES.get(name, ()):
        if ours.partition("=")[0] in known:
            return f"--{name} is not a flag of this command; here it is --{ours}{_MORE.get((name, ours), '')}"
    if name in _NEEDLESS and "strategy" in known:
        return f"--{name} is not a flag of this command: {_NEEDLESS[name]}"
    return ""


def check_values() -> None:
    """Refuses values that other tools have for flags of the same name.

    Raises:
        UserError: the user gave such a value.
    """
    for flag, values, answer in _VALUES:
        given = flags.FLAGS[flag].value if flag in flags.FLAGS else None
        if isinstance(given, str) and given.lower() in values:
            raise UserError(f"--{flag}={given}: {answer}")
