"""The rows of finetune_table and option_effects: the flags of finetune for each.

Paths are relative to the folder of the tasks. A row with test_file is scored on the task's official test set. The test
labels of GLUE and SQuAD are not public, so the other rows report the half of dev that did not choose the weights.
"""

# Lower layers have lower learning rates, as in Howard and Ruder (2018) and Clark et al. (2020, ELECTRA).
_DECAY = {"learning_rate": 2e-4, "layer_decay": 0.75}
# Settings of the tasks with long texts.
_SHORT = {"num_train_steps": 300, "max_seq_length": 128, "learning_rate": 2e-4, "pooling": "mean"}
_RANDOM = {"random_init": True, "num_seeds": 1}
# all-MiniLM-L6-v2 was trained on the mean of its states, so its [CLS] has no meaning, and pooling=mean fits it.
_MRPC = {
    "task": "mrpc",
    "data_dir": "glue/MRPC",
    "num_train_epochs": 4.0,
    "global_batch_size": 16,
    "pooling": "mean",
    **_DECAY,
}
_SST = {
    "task": "sst-2",
    "data_dir": "glue/SST-2",
    "learning_rate": 1e-4,
    "num_train_epochs": 1.0,
    "max_seq_length": 64,
    "pooling": "mean",
    "eval_steps": 421,
}
_CONLL = {
    "task": "ner",
    "data_dir": "conll2003",
    "test_file": "conll2003/test.txt",
    "learning_rate": 2e-4,
    "num_train_epochs": 3.0,
}
_CHINESE = {"encoder": "chinese", "learning_rate": 4e-4, "num_train_epochs": 2.0}
_CHNSENTICORP = {
    **_CHINESE,
    "task": "classification",
    "data_dir": "chinese/chnsenticorp",
    "test_file": "chinese/chnsenticorp/test.tsv",
    "text_columns": "text_a",
    "max_seq_length": 128,
    "pooling": "mean",
}
# These runs start from a model of our own pre-training and use 10,000 training examples.
_OWN = {"encoder": "own", "learning_rate": 4e-4, "max_train_examples": 10_000, "num_train_epochs": 2.0}
_OWN_SST = {**_SST, **_OWN, "eval_steps": 0}
_OWN_CONLL = {**_CONLL, **_OWN}
_DOCUMENTS = {
    "task": "newsgroups",
    "data_dir": "20newsgroups-bydate",
    "test_file": "20newsgroups-bydate/test.jsonl",
    "max_train_examples": 2000,
    "learning_rate": 2e-4,
    "num_train_epochs": 1.0,
    "global_batch_size": 8,
    "max_seq_length": 128,
    "pooling": "mean",
    "num_seeds": 1,
}
_WINDOWS = {"max_windows": 4, "doc_stride": 126}

# Row -> flags of finetune. A row without num_seeds has three seeds (row_runs.given_flags).
ROWS = {
    "conll2003": _CONLL,
    "conll2003_random": {**_CONLL, **_RANDOM},
    "ncbi-disease": {
        "task": "ner",
        "data_dir": "scibert/ner/NCBI-disease",
        "test_file": "scibert/ner/NCBI-disease/test.txt",
        "learning_rate": 2e-4,
        "num_train_epochs": 5.0,
    },
    "bc5cdr": {
        "task": "ner",
        "data_dir": "scibert/ner/bc5cdr",
        "test_file": "scibert/ner/bc5cdr/test.txt",
        "learning_rate": 2e-4,
        "num_train_epochs": 4.0,
    },
    "reuters": {"task": "reuters", "data_dir": "reuters21578", "test_file": "reuters21578/reut2-*.sgm", **_SHORT},
    "newsgroups": {
        "task": "newsgroups",
        "data_dir": "20newsgroups-bydate",
        "test_file": "20newsgroups-bydate/test.jsonl",
        **_SHORT,
    },
    "dream": {
        "task": "dream",
        "data_dir": "dream",
        "test_file": "dream/test.json",
        "max_seq_length": 256,
        "learning_rate": 1e-4,
        "global_batch_size": 16,
        "num_train_steps": 200,
        "max_eval_examples": 500,
        "pooling": "mean",
        "num_seeds": 1,
    },
    "codah": {
        "task": "codah",
        "data_dir": "codah",
        "test_file": "codah/full_data.tsv",
        "learning_rate": 1e-4,
        "num_train_epochs": 3.0,
        "pooling": "mean",
    },
    "sst-2": _SST,
    "sst-2_random": {**_SST, **_RANDOM},
    "mrpc": _MRPC,
    "mrpc_random": {**_MRPC, **_RANDOM},
    "sts-b": {
        "task": "sts-b",
        "data_dir": "glue/STS-B",
        "learning_rate": 1e-4,
        "num_train_epochs": 3.0,
        "pooling": "mean",
    },
    "cola": {
        "task": "cola",
        "data_dir": "glue/CoLA",
        "learning_rate": 1e-4,
        "num_train_epochs": 4.0,
        "pooling": "mean",
    },
    "rte": {"task": "rte", "data_dir": "glue/RTE", "learning_rate": 1e-4, "num_train_epochs": 5.0, "pooling": "mean"},
    "squad1": {
        "task": "squad1",
        "data_dir": "squad",
        "max_train_examples": 10_000,  # of 88,000 or 130,000, so that a row takes an hour
        "learning_rate": 2e-4,
        "global_batch_size": 16,
        "num_train_epochs": 2.0,
        "num_seeds": 1,
    },
    "squad2": {
        "task": "squad2",
        "data_dir": "squad",
        "max_train_examples": 10_000,  # of 88,000 or 130,000, so that a row takes an hour
        "learning_rate": 2e-4,
        "global_batch_size": 16,
        "num_train_epochs": 2.0,
        "num_seeds": 1,
    },
    "own_sst-2": _OWN_SST,
    "own_sst-2_random": {**_OWN_SST, "random_init": True},
    "own_conll2003": _OWN_CONLL,
    "own_conll2003_random": {**_OWN_CONLL, "random_init": True},
    "chnsenticorp": _CHNSENTICORP,
    "chnsenticorp_random": {**_CHNSENTICORP, **_RANDOM},
    "documents_head": _DOCUMENTS,
    "documents_head_tail": {**_DOCUMENTS, "long_documents": "head_tail"},
    "documents_windows": {**_DOCUMENTS, "long_documents": "windows", **_WINDOWS},
    "documents_hierarchical": {**_DOCUMENTS, "long_documents": "hierarchical", **_WINDOWS},
    "documents_long_rows": {**_DOCUMENTS, "max_seq_length": 512},
}

# Settings of the row "none": 4,000 examples of SST-2 and two epochs. One evaluation at the end chooses nothing, and all
# 872 dev sentences are the test set. Other rows change one option of transfer, and settings that this option needs.
_OPTION = {
    "task": "sst-2",
    "data_dir": "glue/SST-2/train.tsv",
    "dev_fraction": 0.01,
    "test_file": "glue/SST-2/dev.tsv",
    "max_train_examples": 4000,
    "max_seq_length": 64,
    "num_train_epochs": 2.0,
    "eval_steps": 250,
    "learning_rate": 2e-4,
    "pooling": "cls",
    "num_seeds": 5,
}
_BILSTM = {"bilstm_units": 128, "pooling": "max", "learning_rate": 1e-3}
_FROZEN = {"freeze_layers": -1, "learning_rate": 1e-3}
_TAGGER = {**_CONLL, "max_train_examples": 2000, "eval_steps": 189, "num_seeds": 5}

# Row -> (flags, the row that it is compared with).
OPTIONS = {
    "none": (_OPTION, None),
    "pooling_mean": ({**_OPTION, "pooling": "mean"}, "none"),
    "pooling_max": ({**_OPTION, "pooling": "max"}, "none"),
    "pooling_concat": ({**_OPTION, "pooling": "concat"}, "none"),
    "last_four": ({**_OPTION, "layers": "last_four", "pooling": "mean"}, "pooling_mean"),
    "scalar_mix": ({**_OPTION, "layers": "scalar_mix", "pooling": "mean"}, "pooling_mean"),
    "reinit_1": ({**_OPTION, "reinit_layers": 1}, "none"),
    "layer_decay": ({**_OPTION, "layer_decay": 0.8}, "none"),
    "average": ({**_OPTION, "average_decay": 0.99}, "none"),
    "consistency": ({**_OPTION, "consistency_weight": 1.0}, "none"),
    "slanted_triangular": ({**_OPTION, "learning_rate_schedule": "slanted_triangular"}, "none"),
    "gradual_unfreezing": ({**_OPTION, "gradual_unfreezing": 40}, "none"),
    "mlm_tuning": ({**_OPTION, "mlm_tuning_steps": 200}, "none"),
    "freeze_3": ({**_OPTION, "freeze_layers": 3}, "none"),
    "freeze_all": ({**_OPTION, **_FROZEN}, "none"),
    "frozen_bilstm": ({**_OPTION, **_FROZEN, **_BILSTM, "layers": "scalar_mix"}, "freeze_all"),
    "small": ({**_OPTION, "encoder_layers": 2}, "none"),
    "small_distilled": ({**_OPTION, "encoder_layers": 2, "teacher": "none", "distillation_weight": 0.8}, "small"),
    "bilstm": ({**_OPTION, **_BILSTM, "encoder_layers": 0}, "none"),
    "bilstm_distilled": (
        {**_OPTION, **_BILSTM, "encoder_layers": 0, "teacher": "none", "distillation_weight": 0.8},
        "bilstm",
    ),
    "no_bias_correction": ({**_OPTION, "bias_correction": False}, "none"),
    "tagger": (_TAGGER, None),
    "tagger_document_context": ({**_TAGGER, "document_context": True}, "tagger"),
    "tagger_frozen": ({**_TAGGER, **_FROZEN, "layers": "scalar_mix"}, "tagger"),
    "tagger_frozen_bilstm": ({**_TAGGER, **_FROZEN, "layers": "scalar_mix", "bilstm_units": 128}, "tagger_frozen"),
}
