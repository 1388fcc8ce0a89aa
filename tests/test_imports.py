"""Imports point one way, as the layout says; read from the sources."""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]

# Folder or file -> what it may import of the project, besides its own kind.
ALLOWED = {
    "pipelines": {"pipelines"},
    "keras_bert_app/errors.py": set(),
    "keras_bert_app/config.py": {"keras_bert_app.errors"},
    "keras_bert_app/training_config.py": {"keras_bert_app.config", "keras_bert_app.errors"},
    "keras_bert_app/pretraining_config.py": {"keras_bert_app.training_config", "keras_bert_app.errors",
                                             "pipelines.choices"},
    "keras_bert_app/finetuning_config.py": {"keras_bert_app.training_config", "keras_bert_app.tasks.entities", "keras_bert_app.errors"},
    # Nothing that loads TensorFlow.
    "keras_bert_app/estimation": {"keras_bert_app.estimation", "keras_bert_app.modeling.parts", "keras_bert_app.config",
                                  "keras_bert_app.training_config", "keras_bert_app.errors"},
    "keras_bert_app/modeling": {"keras_bert_app.modeling", "keras_bert_app.config", "keras_bert_app.errors"},
    "keras_bert_app/runs": {"keras_bert_app.runs", "keras_bert_app.modeling", "keras_bert_app.config",
                            "keras_bert_app.pretraining_config", "keras_bert_app.errors", "pipelines"},
    "keras_bert_app/tpu_wheels.py": {"keras_bert_app.errors"},
    "keras_bert_app/training": {"keras_bert_app.training", "keras_bert_app.training_config", "keras_bert_app.tpu_wheels",
                                "keras_bert_app.estimation",
                                "keras_bert_app.runs", "keras_bert_app.interop",
                                "keras_bert_app.modeling", "keras_bert_app.config", "keras_bert_app.pretraining_config",
                                "keras_bert_app.errors", "keras_bert_app.drawing", "pipelines"},
    "keras_bert_app/progress.py": {"keras_bert_app.training"},
    "keras_bert_app/tasks": {"keras_bert_app.tasks", "keras_bert_app.progress", "keras_bert_app.training", "keras_bert_app.runs",
                             "keras_bert_app.interop", "keras_bert_app.modeling", "keras_bert_app.config",
                             "keras_bert_app.pretraining_config", "keras_bert_app.finetuning_config",
                             "keras_bert_app.errors", "keras_bert_app.drawing", "pipelines"},
    "keras_bert_app/interop": {"keras_bert_app.interop", "keras_bert_app.modeling", "keras_bert_app.runs",
                               "keras_bert_app.config", "keras_bert_app.errors", "pipelines"},
    "keras_bert_app/inspection": {"keras_bert_app.inspection", "keras_bert_app.runs", "keras_bert_app.training",
                                  "keras_bert_app.config", "keras_bert_app.pretraining_config", "keras_bert_app.errors",
                                  "keras_bert_app.terminal", "pipelines"},
    "keras_bert_app/analysis": {"keras_bert_app.analysis", "keras_bert_app.progress", "keras_bert_app.drawing", "keras_bert_app.export", "keras_bert_app.tasks",
                                "keras_bert_app.training", "keras_bert_app.interop", "keras_bert_app.modeling",
                                "keras_bert_app.runs", "keras_bert_app.config", "keras_bert_app.finetuning_config", "keras_bert_app.errors", "pipelines"},
    "keras_bert_app/drawing": {"keras_bert_app.drawing"},
    "keras_bert_app/saved_model_files.py": {"keras_bert_app.errors"},
    "keras_bert_app/litert_model.py": {"keras_bert_app.terminal"},
    # A server needs SavedModels alone, no code that made them.
    "keras_bert_app/serving": {"keras_bert_app.serving", "keras_bert_app.saved_model_files", "keras_bert_app.errors"},
    "keras_bert_app/vectors": {"keras_bert_app.vectors", "keras_bert_app.export", "keras_bert_app.litert_model", "keras_bert_app.training",
                               "keras_bert_app.config", "keras_bert_app.errors", "pipelines"},
    "keras_bert_app/export": {"keras_bert_app.export", "keras_bert_app.saved_model_files", "keras_bert_app.litert_model",
                              "keras_bert_app.tasks", "keras_bert_app.training",
                              "keras_bert_app.interop", "keras_bert_app.modeling", "keras_bert_app.runs",
                              "keras_bert_app.config", "keras_bert_app.finetuning_config", "keras_bert_app.errors",
                              "pipelines"},
}
# Nothing imports the scripts but themselves.
NEVER = {"keras_bert_app.cli"}
SOURCES = sorted([*ROOT.glob("pipelines/**/*.py"), *ROOT.glob("keras_bert_app/**/*.py")])


def imported_modules(path):
    """Dotted names of everything a file imports, at its top or inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide what depends on what"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_below(module, package):
    return module == package or module.startswith(package + ".")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_only_what_its_folder_may(path):
    relative = path.relative_to(ROOT).as_posix()
    ours = [module for module in imported_modules(path) if module.split(".")[0] in ("pipelines", "keras_bert_app")]
    if not relative.startswith("keras_bert_app/cli/"):
        assert not [module for module in ours if any(is_below(module, package) for package in NEVER)]
    for place, allowed in ALLOWED.items():
        if relative == place or relative.startswith(place + "/"):
            assert not [module for module in ours if not any(is_below(module, package) for package in allowed)]


def test_only_backend_py_of_the_model_imports_tensorflow():
    users = {path.name for path in (ROOT / "keras_bert_app/modeling").glob("*.py")
             if any(module.split(".")[0] == "tensorflow" for module in imported_modules(path))}
    assert users == {"backend.py"}


def test_importing_the_packages_does_not_load_tensorflow():
    code = "import sys, keras_bert_app, pipelines, keras_bert_app.config; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
