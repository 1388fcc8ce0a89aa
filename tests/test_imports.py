"""The structure of the sources: the list of modules, their layers, and imports from earlier layers only."""

import ast
import collections
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]

# Folder -> its modules. A module imports from its own unit (see `unit`) and from earlier layers. The modules of the
# first layer may import each other. Add each new module here.
LAYERS = [
    # the standard library only
    {
        "pipelines": "channels choices data_error plurals processors ragged storage",
        "keras_bert_app": "errors files",
        "keras_bert_app.terminal": "durations progress screen text_columns",
        "keras_bert_app.config": (
            "bert_config finetuning_config lstm_config pretraining_config prompts published_keys rerank_options "
            "similarity_options text_to_text_options training_config weight_shapes"
        ),
        "keras_bert_app.recipes": (
            "chinese_whole_word domain large_batch multilingual original original_long_rows small_budget"
        ),
    },
    # text, pictures, arithmetic
    {
        "pipelines.text": (
            "docstring_layout docstring_text installed_docs readers scripts segmentation sentences text_files "
            "text_formats text_lines"
        ),
        "pipelines.wordpiece": (
            "casing detokenizing normalize offsets special_tokens symbol_counting symbols texts token_columns "
            "tokenizer tokenizers unicode_14 unicode_14_classes vocabulary vocabulary_checks vocabulary_extension "
            "vocabulary_learning vocabulary_report word_counting words"
        ),
        "pipelines.examples": (
            "block_examples dataset masking masking_advice mixing packing pairs pointer_jumping units"
        ),
        "pipelines.corpus": (
            "corpus_reading corpus_report corpus_tasks fingerprints heldout_text manifest near_duplicates overlap "
            "preparation shards spool staging"
        ),
        "keras_bert_app.drawing": (
            "alignments attention_page bars corpus_picture curves examples_picture figures finetuning_pictures fonts "
            "head_maps pattern_pictures planes probe_pictures pruning_pictures sense_pictures tree_pictures "
            "vector_map_page vocabulary_picture"
        ),
        "keras_bert_app.estimation": "counts estimate estimate_report hardware memory",
    },
    # work directories, and checkpoints of any source
    {
        "keras_bert_app.runs": (
            "checkpoint_averages checkpoint_manifests checkpoints lock run_notes seeds shared_tokenizer sorted_tables "
            "tf_checkpoints threads work_directory"
        ),
    },
    # models; serving needs only SavedModels
    {
        "keras_bert_app.modeling": (
            "architectures attention backend carried_states character_vectors crf cross_attention embeddings encoder "
            "execution gpt_encoder gru heads keras_contract language_model layers lstm lstm_encoder "
            "lstm_language_model mask_scores pretrainer rnn_decoder task_head task_model task_models token_features "
            "text_decoding text_generation text_to_text_model token_vectors transformer_decoder "
            "vector_model"
        ),
        "keras_bert_app.serving": (
            "access batcher batching_options bodies config_file connections decoding encoding litert_model "
            "model_configs models op_threads parts predictions request_errors routes saved_model_files sending "
            "servable served_signatures server server_metrics versions work"
        ),
    },
    # weights in and out
    {
        "keras_bert_app.interop": (
            "archives attention_heads directories hub load own_layout parity parity_files surgery "
            "vocabulary_surgery weights"
        ),
        "keras_bert_app.interop.gpt2": "gpt2_layout gpt2_reference",
        "keras_bert_app.interop.google_tf1": "google_layout google_names google_reference",
        "keras_bert_app.interop.huggingface": (
            "huggingface_files huggingface_layout huggingface_names huggingface_reference huggingface_tensors "
            "huggingface_tokenizer safetensors_files sentence_transformers_files sentence_transformers_reference"
        ),
        "keras_bert_app.interop.keras_hub": (
            "hdf5_files keras_hub_layout keras_hub_names keras_hub_objects keras_hub_reference"
        ),
        "keras_bert_app.interop.model_garden": (
            "model_garden_config model_garden_layout model_garden_names model_garden_reference"
        ),
        "keras_bert_app.interop.reference": "reference_answers reference_process",
        "keras_bert_app.vectors.static": "exact_nearest learning_options unknown_words word_vector_files",
    },
    # training
    {
        "keras_bert_app.training": (
            "baselines cached_gradients compilation device_faults evaluation forward gpu gpu_environment infeed "
            "initialization language_model_objective local_cluster loop losses outlook pace pretrain "
            "pretraining_corpora pretraining_data pretraining_heldout pretraining_start profiling replicas reporting "
            "signals start steps strategies token_sources tpu tpu_wheels vocabulary_fit window"
        ),
        "keras_bert_app.training.optimizers": "adafactor adam choice loss_scale muon optimizer_base schedules",
    },
    # tasks
    {
        "keras_bert_app.tasks": (
            "batch_plans batches context_lstm denoising_objective dev_evaluation dev_halves features finetune "
            "finetuning_start hard_negatives initial_weights intervals keyword_start labelled_data lengths metrics "
            "mined_epochs mlm_tuning objectives predicting pruned_runs ranking_objective registry result_lines "
            "results run_plan sampling scheduled_sampling scoring search_scores similarity_runs split_files task "
            "transfer vector_losses vector_objective vector_start vector_teachers"
        ),
        "keras_bert_app.tasks.families": (
            "answer_report answer_spans entities group_scores multiple_choice question_answering ranking_scores "
            "reranking sequence_report sequences "
            "squad_scores tagging tagging_rows text_scores text_to_text text_vectors vector_answers vector_checks"
        ),
        "keras_bert_app.tasks.readers": (
            "choice_files conll disjoint_parts generic glue languages newsgroups parallel rerank reuters similarity "
            "squad tables tagging_tasks"
        ),
        "keras_bert_app.inspection": "inspection_report reading source statistics",
    },
    # SavedModels
    {
        "keras_bert_app.export": (
            "answers best_answers choice_answers chunks continuation encoder_signatures fill_mask_signatures "
            "finetuned_export generation_signatures "
            "litert_export masked_lm_scoring model_card pooling preprocessor pretrained_export question_answers "
            "raw_answers rerank_answers rows saved_models sentence_vectors sequence_answers specs "
            "tagging_answers text_answers text_stream vector_parity word_splitter"
        ),
    },
    # uses of a model
    {
        "keras_bert_app.analysis": (
            "analysis_report control_tasks coreference_windows edge_answers encoded_sentences encoders "
            "even_samples findings head_distances head_tasks input_texts layer_probes mentions mix_probe "
            "occurrences options probe_steps pruned_exports pseudo_likelihood sense_maps sense_scores "
            "sentence_bootstrap span_items split_halves study_registry tree_probe tree_scores treebank word_pairs "
            "word_vectors"
        ),
        "keras_bert_app.analysis.studies": (
            "attention_maps attention_parser attention_patterns attention_probe coreference edge_probing "
            "endings feature_vectors grammar_heads head_importance head_pruning minimal_pairs structural_probe "
            "surprise word_senses"
        ),
        "keras_bert_app.vectors": (
            "approximate_index compact_vectors embedding found_texts judged_pairs learning_text mined_rows nearest "
            "plain_rows ranking_files rerankers rescoring search_collections search_evaluation text_embedder "
            "text_sources vector_files vector_learning vector_maps word_relations word_search"
        ),
    },
    # commands
    {
        "keras_bert_app.cli": (
            "analyze ask check_vocab convert demo embed estimate evaluate evaluate_search export extend_vocab "
            "fill_mask finetune generate index_vectors inspect_data launch_workers learn_vectors learn_vocab "
            "map_vectors mine_negatives nearest_words predict prepare_corpus pretrain search serve tokenize"
        ),
        "keras_bert_app.cli.common": (
            "answer_flags app config_flags documentation_demo flag_groups foreign_flags help_pages input_files "
            "input_text interrupts output_files pooling_flags raw_text_flags written_places"
        ),
    },
]

MOST_LAYERS = 10
MOST_LINES = 60
# These functions are the whole program of a script that writes golden values.
LONGER_FUNCTIONS = {"tests/golden/generate_squad.py main", "tests/golden/generate_model_garden.py write"}
MOST_NAMES_AT_THE_TOP = 20
SOURCES = sorted(path for top in ("pipelines", "keras_bert_app") for path in (ROOT / top).rglob("*.py"))
PACKAGE_FILES = ("__init__", "__main__")
# The modules directly in pipelines belong to the first layer. Among them only ragged needs TensorFlow.
FOLDER_LAYER = {folder: number for number, layer in enumerate(LAYERS) for folder in layer}
# These files name modules of later layers, and import them on first use.
LAZY = {"keras_bert_app/__init__.py", "pipelines/__init__.py", "keras_bert_app/__main__.py"}


def folder_of(path):
    return ".".join(path.relative_to(ROOT).parent.parts)


def imported_modules(path):
    """Dotted names of all imports of a file, at its top and inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: has a relative import; expected the full name of the module"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def folder_of_import(name):
    """The listed folder of an imported dotted name; None if the module is not ours."""
    parts = name.split(".")
    if parts[0] not in ("pipelines", "keras_bert_app"):
        return None
    return next(folder for end in range(len(parts), 0, -1) if (folder := ".".join(parts[:end])) in FOLDER_LAYER)


def unit(folder):
    """The folders that import each other freely: pipelines, or a folder of keras_bert_app with its subfolders."""
    parts = folder.split(".")
    return parts[0] if parts[0] == "pipelines" else ".".join(parts[:2])


def test_every_module_is_listed_once():
    present = collections.defaultdict(set)
    for path in SOURCES:
        if path.stem not in PACKAGE_FILES and not path.parent.name.startswith("page"):
            present[folder_of(path)].add(path.stem)
    listed = {folder: set(names.split()) for layer in LAYERS for folder, names in layer.items()}
    assert dict(present) == listed


def test_the_layers_and_the_top_names_of_the_package_stay_few():
    assert len(LAYERS) <= MOST_LAYERS
    names = [path.name for path in (ROOT / "keras_bert_app").iterdir() if path.name != "__pycache__"]
    assert len(names) <= MOST_NAMES_AT_THE_TOP


def test_no_module_name_occurs_twice():
    names = [
        name
        for layer in LAYERS
        for folder, modules in layer.items()
        if folder != "keras_bert_app.cli"
        for name in modules.split()
    ]
    assert not [name for name, count in collections.Counter(names).items() if count > 1]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_from_its_own_unit_and_earlier_layers(path):
    if path.relative_to(ROOT).as_posix() in LAZY:
        return
    folder = next(name for name in (folder_of(path), folder_of(path).rpartition(".")[0]) if name in FOLDER_LAYER)
    for name in imported_modules(path):
        other = folder_of_import(name)
        if other is None or unit(other) == unit(folder):
            continue
        assert not folder.startswith("pipelines"), f"{path}: pipelines never imports the application ({name})"
        are_both_first = FOLDER_LAYER[folder] == FOLDER_LAYER[other] == 0
        assert FOLDER_LAYER[other] < FOLDER_LAYER[folder] or are_both_first, f"{path}: imports {name} of a later layer"


@pytest.mark.parametrize("folder", ["keras_bert_app/config", "keras_bert_app/recipes", "keras_bert_app/estimation"])
def test_configurations_recipes_and_estimates_load_no_tensorflow(folder):
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / folder).glob("*.py")]
    code = f"import importlib, sys\nfor name in {modules!r}: importlib.import_module(name)\n"
    subprocess.run([sys.executable, "-c", f"{code}assert 'tensorflow' not in sys.modules"], check=True, cwd=ROOT)


def test_only_backend_and_execution_of_the_model_import_tensorflow():
    users = {
        path.name
        for path in (ROOT / "keras_bert_app/modeling").glob("*.py")
        if any(module.split(".")[0] == "tensorflow" for module in imported_modules(path))
    }
    assert users == {"backend.py", "execution.py"}


def test_importing_the_packages_does_not_load_tensorflow():
    code = "import sys, keras_bert_app, pipelines, keras_bert_app.config; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize(("given", "expected"), [({}, "1"), ({"TF_ENABLE_ONEDNN_OPTS": "0"}, "0")])
def test_importing_the_package_turns_on_onednn_unless_the_user_has_decided(given, expected):
    environment = {name: value for name, value in os.environ.items() if name != "TF_ENABLE_ONEDNN_OPTS"} | given
    code = f"import os, keras_bert_app; assert os.environ['TF_ENABLE_ONEDNN_OPTS'] == '{expected}'"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=environment)


def test_no_test_imports_a_script_that_defines_flags():
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in (ROOT / "benchmarks").rglob("*.py")
    }
    for path in (ROOT / "tests").rglob("*.py"):
        for name in imported_modules(path):
            for module in {name, name.rpartition(".")[0]} & modules.keys():
                defines_flags = "flags.DEFINE" in modules[module].read_text(encoding="utf-8")
                assert not defines_flags, f"{path}: the flags of {module} clash with those of our commands"


def test_no_function_is_longer_than_a_screen():
    assert len(LONGER_FUNCTIONS) <= 5
    longer = set()
    for top in ("pipelines", "keras_bert_app", "benchmarks", "docs", "examples", "notebooks", "saved_models", "tests"):
        for path in (ROOT / top).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    if node.end_lineno - node.lineno >= MOST_LINES:
                        longer.add(f"{path.relative_to(ROOT).as_posix()} {node.name}")
    assert longer <= LONGER_FUNCTIONS
