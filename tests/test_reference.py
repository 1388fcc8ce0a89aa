"""The pages in docs/reference are equal to those that the code generates."""

import re
import subprocess
import sys

import pytest
from absl import flags

from docs import generate_reference
from keras_bert_app.config.finetuning_config import FinetuningConfig

ROOT = generate_reference.ROOT


def test_the_pages_equal_those_that_the_code_generates():
    # The check runs in its own process, because other tests define flags of the same names.
    check = [sys.executable, "-m", "docs.generate_reference", "--check"]
    result = subprocess.run(check, capture_output=True, text=True, cwd=ROOT, check=False)
    assert result.returncode == 0, result.stderr  # the message names the command that renews the pages


def test_a_page_that_differs_and_a_page_without_a_verb_are_reported_and_repaired(tmp_path, monkeypatch):
    texts = {"serve.md": "# serve\n", "ask.md": "# ask\n"}
    monkeypatch.setattr(generate_reference, "pages", lambda: texts)
    monkeypatch.setattr(generate_reference, "FOLDER", tmp_path / "reference")
    monkeypatch.setattr(sys, "argv", ["generate_reference"])
    generate_reference.main()
    assert generate_reference.stale_pages() == []
    (tmp_path / "reference" / "ask.md").write_text("# changed\n")
    (tmp_path / "reference" / "earlier.md").write_text("# earlier\n")
    assert generate_reference.stale_pages() == ["ask.md", "earlier.md"]
    monkeypatch.setattr(sys, "argv", ["generate_reference", "--check"])
    with pytest.raises(SystemExit, match="ask.md, earlier.md; `python -m docs.generate_reference` renews them"):
        generate_reference.main()
    monkeypatch.setattr(sys, "argv", ["generate_reference"])
    generate_reference.main()
    assert {path.name: path.read_text() for path in (tmp_path / "reference").iterdir()} == texts


def test_a_row_has_the_default_of_the_configuration_and_escapes_markdown():
    own = flags.FlagValues()
    flags.DEFINE_string("kept", None, "Variables <x> whose a*b has --seed=3. Default: layer|bias.", flag_values=own)
    flags.DEFINE_enum("to", None, ["run", "hub"], "Layout.", flag_values=own)
    flags.DEFINE_bool("check", False, "Compare.", flag_values=own)
    flags.DEFINE_list("parts", ["one", "two"], "Parts.", flag_values=own)
    assert list(generate_reference._table(own[name] for name in ("kept", "to", "check", "parts")))[2:] == [
        r"| `--kept` | text | <code>layer&#124;bias</code> | Variables &lt;x> whose a\*b has `--seed=3`. |",
        "| `--to` | `run` or `hub` |  | Layout. |",
        "| `--check` | yes or no | `false` | Compare. |",
        "| `--parts` | list | `one,two` | Parts. |",
    ]


def test_every_field_of_the_configuration_is_a_row_with_its_default():
    page = (ROOT / "docs" / "reference" / "finetune.md").read_text()
    rows = dict(re.findall(r"^\| `--(\w+)` \| [^|]* \| ([^|]*) \|", page, re.M))
    fields = FinetuningConfig.__dataclass_fields__
    assert fields.keys() - rows.keys() == {"max_eval_steps"}
    assert rows["learning_rate"] == "`5e-05`" and rows["length_buckets"] == "`true`" and rows["task"] == ""
