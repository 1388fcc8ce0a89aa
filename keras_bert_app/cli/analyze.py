"""Analyzes an encoder: attention, grammar in heads and vectors, heads that can be removed, senses of words.

python -m keras_bert_app.cli.analyze --what=attention --init_checkpoint=MODEL --text="The cat sat." --output_dir=seen
python -m keras_bert_app.cli.analyze --what=structural_probe --init_checkpoint=MODEL --train_file=en-train.conllu \\
    --dev_file=en-dev.conllu --output_dir=seen
python -m keras_bert_app.cli.analyze --what=list

MODEL is in any layout that convert reads. --what takes one analysis, or several, separated by commas. Each analysis
prints its table next to a baseline, and writes NAME.json and its pictures to --output_dir. report.html in that
directory shows the results of all analyses so far. It names the model of each result that is not from the last model.
"""

import dataclasses
import os
import re

from absl import flags

from keras_bert_app.analysis import study_registry
from keras_bert_app.analysis.options import Options
from keras_bert_app.cli.common import app, written_places
from keras_bert_app.cli.common.output_files import make_place_for, write_files
from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json
from pipelines import storage

_WHAT = flags.DEFINE_list(
    "what", [], f"One or several of {', '.join(study_registry.NAMES)}; --what=list describes each."
)
flags.DEFINE_string("output_dir", "", "Directory for the results.")
written_places.define_overwrite()
_HELP = {
    "init_checkpoint": "The model, in any layout that convert reads.",
    "text": "The text to look at.",
    "text_pair": "A second text, segment B of the same row.",
    "input_file": "Texts, one a line.",
    "train_file": "CoNLL-U to train probes on.",
    "dev_file": "CoNLL-U to measure on.",
    "ner_train_file": "Named entities in CoNLL-2003's columns, to train a probe on; with --ner_dev_file.",
    "ner_dev_file": "Named entities to measure on, in the same columns.",
    "pairs_file": "Minimal pairs, a line each: the good sentence, a tab, the bad one.",
    "endings_file": "Beginnings with their endings: CODAH's or SWAG's layout.",
    "workdir": "Directory of a fine-tuned run, whose heads head_importance and pruning examine instead of "
    "those of --init_checkpoint.",
    "words": "Words to look up in --input_file.",
    "layers": "Layers whose vectors to write: 0 the embeddings' output, 1 the first layer's, -1 the last one's.",
    "max_sentences": "Number of sentences that are read from each file; 0: all; -1: the number that suits the "
    "analysis, mostly all. Remarks say what was read and what was left out.",
    "num_seeds": "Number of seeds of probes and random baselines.",
    "probe_rank": "Dimensions that the structural probe maps to.",
    "prune_percent": "Share of the heads to remove, in percent.",
    "seed": "The first seed.",
}
_LOWEST = {"num_seeds": 1, "probe_rank": 1, "max_sentences": -1}
_DEFAULTS = Options()
for _name, _help in _HELP.items():
    _default = getattr(_DEFAULTS, _name)
    if isinstance(_default, int):
        flags.DEFINE_integer(_name, _default, _help, lower_bound=_LOWEST.get(_name, 0))
    elif isinstance(_default, tuple):
        flags.DEFINE_list(_name, list(_default), _help)
    else:
        flags.DEFINE_string(_name, _default, _help)


def main(arguments: list[str]) -> None:
    app.required("what")
    if _WHAT.value == ["list"]:
        _list_studies()
        return
    for name in _WHAT.value:
        study_registry.check(name)
    options = Options(
        **{
            name: tuple(value) if isinstance(value, list) else value
            for name, value in ((name, flags.FLAGS[name].value) for name in _HELP)
        }
    )
    if not options.workdir:
        app.required("init_checkpoint")
    (output_dir,) = app.required("output_dir")
    with app.quiet_start():
        from keras_bert_app.analysis import analysis_report, encoders, findings

        studies = [study_registry.find(name) for name in _WHAT.value]
    is_of_workdir = bool(options.workdir) and all(getattr(study, "MODEL_FROM", "") == "workdir" for study in studies)
    if not is_of_workdir:
        app.required("init_checkpoint")
    _refuse_unread(studies)
    _check_inputs(options, studies)
    make_place_for(os.path.join(output_dir, "found.json"), "output_dir")
    written_places.check_new(_files_of_others(output_dir, _WHAT.value), "output_dir")
    subject = None if is_of_workdir else encoders.load_subject(options.init_checkpoint, print)
    for study in studies:
        result = study.run(subject, options, print)
        result = dataclasses.replace(result, origin=result.origin or subject.origin)
        print("\n" + "\n".join(findings.text_lines(result)))
        write_files(output_dir, findings.contents(result, options))
    name = encoders.name_of(options.workdir if is_of_workdir else options.init_checkpoint)
    write_files(
        output_dir,
        {analysis_report.REPORT: analysis_report.report(output_dir, f"Inside {name}", (subject or result).origin)},
    )


def _files_of_others(output_dir, names):
    """Returns the files that analyses with these names would replace, and that no analysis wrote."""
    present, own = storage.list_directory(output_dir), set()
    for name in study_registry.NAMES:
        if f"{name}.json" in present:
            try:
                own |= {f"{name}.json", "report.html", *read_json(os.path.join(output_dir, f"{name}.json"))["files"]}
            except (UserError, KeyError, TypeError):  # a file of another program, or an incomplete file
                continue
    named = [file for file in present if any(re.match(rf"{name}[_.]", file) for name in names) or file == "report.html"]
    return [os.path.join(output_dir, file) for file in named if file not in own]


def _list_studies():
    with app.quiet_start():
        for name in study_registry.NAMES:
            study = study_registry.find(name)
            needs = ", ".join(f"--{need}" for need in study.NEEDS)
            print(f"{name:20} {study.SUMMARY}{f' ({needs})' if needs else ''}")


def _read_by(study):
    return (*study.NEEDS, *study.TAKES)


def _refuse_unread(studies):
    read = {"init_checkpoint"}.union(*map(_read_by, studies))
    for name in _HELP:
        if flags.FLAGS[name].present and name not in read:
            readers = [other for other in study_registry.NAMES if name in _read_by(study_registry.find(other))]
            raise UserError(
                f"--{name} is not read by --what={','.join(_WHAT.value)}; leave it out; these analyses read it: "
                f"{', '.join(readers)}"
            )


def _check_inputs(options, studies):
    for name, study in zip(_WHAT.value, studies, strict=True):
        for need in study.NEEDS:
            if not getattr(options, need):
                raise UserError(f"--{need} is missing, which --what={name} reads; its help: {flags.FLAGS[need].help}")
        if hasattr(study, "check"):
            study.check(options)
    for train, dev in (("train_file", "dev_file"), ("ner_train_file", "ner_dev_file")):
        paths = [getattr(options, name) for name in (train, dev)]
        if all(paths) and os.path.realpath(paths[0]) == os.path.realpath(paths[1]):
            raise UserError(f"--{dev}={paths[1]}: is also the --{train}; give a file of other sentences to measure on")


if __name__ == "__main__":
    app.run(main, __doc__, writes={"output_dir": ""})
