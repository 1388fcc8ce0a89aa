"""The groups of the flags of finetune and pretrain, for --help and for the pages in docs/reference."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class FlagGroup:
    """Flags that belong together.

    Args:
        name: str. The value of --help=NAME.
        summary: str. One line about the flags.
        flags: tuple of str. Names of flags, the most useful ones first.
    """

    name: str
    summary: str
    flags: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class GroupedFlags:
    """The flags of a command that has too many flags for one list.

    Args:
        most_needed: tuple of str. Names of the flags that --help shows.
        groups: tuple of FlagGroup. Every flag of the command is in exactly one group.
    """

    most_needed: tuple[str, ...]
    groups: tuple[FlagGroup, ...]


def _group(name, summary, flags):
    return FlagGroup(name, summary, tuple(flags.split()))


# Flags that both commands have.
_OPTIMIZER = (
    "optimizer weight_decay_rate not_decayed layer_decay clip_norm adam_beta_1 adam_beta_2 adam_epsilon "
    "bias_correction on_nonfinite"
)
_LEARNING_RATE = "learning_rate_schedule num_warmup_steps warmup_share decay_power decay_share"
_CHECKPOINTS = "save_checkpoints_steps keep_checkpoints keep_every_steps log_steps"
_DEVICES = _group(
    "devices",
    "devices, number format, compilation and memory",
    "strategy precision gradient_accumulation_steps jit_compile iterations_per_loop deterministic profile_steps",
)

FINETUNE = GroupedFlags(
    most_needed=(
        "workdir",
        "task",
        "data_dir",
        "text_columns",
        "label_column",
        "dev_fraction",
        "init_checkpoint",
        "max_seq_length",
        "num_train_epochs",
        "learning_rate",
    ),
    groups=(
        _group(
            "data",
            "the labelled files, and how texts become rows",
            "task list_tasks data_dir test_file dev_fraction text_columns label_column header max_train_examples "
            "max_seq_length length_buckets long_documents max_windows doc_stride",
        ),
        _group(
            "start",
            "the directory of the run, the weights to start from and the seeds",
            "workdir init_checkpoint config vocab_file random_init init_vectors unknown_vectors seed num_seeds "
            "mlm_tuning_steps",
        ),
        _group(
            "what_learns",
            "the head, the layers that are trained, and learning from a teacher",
            "pooling layers mix_layer_norm mix_rate_factor bilstm_units token_vector_size states_at context_vectors "
            "classifier_dropout encoder_dropout encoder_layers freeze_layers reinit_layers gradual_unfreezing "
            "consistency_weight language_model_weight teacher unlabelled_files distillation_weight "
            "distillation_temperature",
        ),
        _group(
            "schedule",
            "length of the run, batch size, learning rate and optimizer",
            "num_train_epochs num_train_steps train_minutes global_batch_size learning_rate "
            f"{_LEARNING_RATE} {_OPTIMIZER}",
        ),
        _group(
            "evaluation",
            "evaluations, the weights that are kept, checkpoints and logs",
            f"eval_steps max_eval_examples early_stopping average_decay average_checkpoints {_CHECKPOINTS}",
        ),
        _DEVICES,
        _group(
            "task_families",
            "flags of single families of tasks: pairs, tagging, question answering, several languages",
            "swap_pairs tag_scheme tag_layer document_context max_query_length max_answer_length n_best_size "
            "null_score_diff_threshold language fold",
        ),
        _group(
            "text_to_text",
            "translation and other tasks whose answers are texts",
            "source target target_vocab_file decoder recurrent_encoder attention context decoder_layers decoder_init "
            "shared_weights max_target_length label_smoothing batch_tokens teacher_forcing teacher_forcing_schedule "
            "num_beams length_penalty temperature top_k top_p",
        ),
        _group(
            "similarity",
            "vectors of texts",
            "vector_loss vector_temperature symmetric_loss triplet_margin deletion_ratio vector_sizes "
            "mine_negatives mine_range mine_margin mine_after similarity_metric query_prompt document_prompt",
        ),
        _group("rerank", "rankings of documents for a query", "ranking_loss list_size ranking_metric"),
    ),
)

PRETRAIN = GroupedFlags(
    most_needed=(
        "workdir",
        "input_files",
        "corpus_dir",
        "vocab_file",
        "config",
        "recipe",
        "init_checkpoint",
        "train_minutes",
        "num_train_steps",
        "global_batch_size",
    ),
    groups=(
        _group(
            "data",
            "the text and how it is read",
            "input_files corpus_dir sampling_exponent input_format text_field strict holdout_fraction",
        ),
        _group(
            "examples",
            "how text becomes rows, sentence pairs and masks",
            "language_model max_seq_length masked_lm_prob max_predictions_per_seq masking lexicon_file max_ngram "
            "mask_token_rate random_token_rate sentence_objective short_seq_prob dupe_factor carry_state",
        ),
        _group(
            "start",
            "the directory of the run, the recipe, and the vocabulary and weights to start from",
            "workdir recipe config vocab_file init_checkpoint allow_missing position_initializer token_groups "
            "given_vectors seed",
        ),
        _group(
            "model",
            "single values of the model's configuration",
            "num_hidden_layers hidden_size num_attention_heads intermediate_size hidden_act hidden_dropout_prob "
            "attention_probs_dropout_prob max_position_embeddings type_vocab_size initializer_range layer_norm_eps "
            "tokenizer channels positions token_fusion train_token_vectors do_lower_case tie_word_embeddings "
            "num_heads_by_layer is_causal architecture",
        ),
        _group(
            "schedule",
            "length of the run, batch size, learning rate and optimizer",
            "train_minutes num_train_steps global_batch_size batch_ramp_steps batch_ramp_share length_ramp_steps "
            f"length_ramp_share learning_rate {_LEARNING_RATE} {_OPTIMIZER}",
        ),
        _group(
            "evaluation",
            "evaluations on held-out text, checkpoints and logs",
            f"eval_steps max_eval_steps {_CHECKPOINTS}",
        ),
        _DEVICES,
    ),
)

BY_VERB = {"finetune": FINETUNE, "pretrain": PRETRAIN}
