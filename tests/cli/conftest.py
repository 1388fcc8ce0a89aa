"""Commands run in this process, where TensorFlow is loaded already."""

import runpy
import sys
from types import SimpleNamespace

import pytest
from absl import app as absl_app
from absl import flags


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a command in this process, its flags forgotten afterwards: each command defines its own."""
    absl_app.define_help_flags()

    def call(verb, *arguments):
        capsys.readouterr()
        known = set(flags.FLAGS)
        monkeypatch.setattr(sys, "argv", [verb, *map(str, arguments)])
        try:
            runpy.run_module(f"keras_bert_app.cli.{verb}", run_name="__main__")
        except SystemExit as stop:
            code = stop.code or 0
        finally:
            for name in set(flags.FLAGS) - known:
                delattr(flags.FLAGS, name)
        out, err = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=out, stderr=err)
    return call
