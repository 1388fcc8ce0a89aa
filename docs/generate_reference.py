"""Writes docs/reference: a page for each verb, a page for the functions of Python, and their index.

python -m docs.generate_reference           # after a change of a flag, a help text or a public docstring
python -m docs.generate_reference --check   # lists the pages that differ from the code; exit code 1 if there are any

The pages come from the flags that each command defines, and from the sources of the public functions. The script does
not load TensorFlow.
"""

import ast
import html
import pathlib
import re
import runpy
import sys
import textwrap

from absl import flags

import keras_bert_app
import pipelines
from keras_bert_app.__main__ import VERBS
from keras_bert_app.cli.common import app  # noqa: F401  It defines absl's own flags, which no page lists.
from keras_bert_app.cli.common.flag_groups import BY_VERB

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
COMMAND = "python -m docs.generate_reference"
_NOTE = f"<!-- `{COMMAND}` generates this page. Do not edit it. -->"
_TYPES = {"string": "text", "int": "integer", "float": "number", "bool": "yes or no"}
_LONGEST_SIGNATURE = 100
_SECTION = re.compile(r"^(Args|Call arguments|Attributes|Returns|Raises|Yields|Example|Examples):$", re.M)


def pages() -> dict[str, str]:
    """The pages: name of the file -> its text."""
    verbs = [verb for goal in VERBS.values() for verb in goal]
    texts = {"README.md": _index(), **{f"{verb}.md": _verb_page(verb) for verb in verbs}, "python.md": _python_page()}
    return {name: re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n" for name, text in texts.items()}


def stale_pages() -> list[str]:
    """The names of the pages that are missing, differ from the code, or belong to no verb."""
    wanted = pages()
    present = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    return sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))


def _index():
    lines = ["# Reference", "", _NOTE, ""]
    for goal, verbs in VERBS.items():
        lines += [f"To {goal}:", "", "| command | purpose |", "|---|---|"]
        lines += [f"| [`{verb}`]({verb}.md) | {_prose(summary)} |" for verb, summary in verbs.items()]
        lines += [""]
    lines += [
        "Give a command as `keras-bert-app VERB --flag=value` or as `python -m keras_bert_app.cli.VERB --flag=value`.",
        "",
        "[The functions of Python](python.md) has the public names of `keras_bert_app` and of `pipelines`.",
    ]
    return "\n".join(lines)


def _verb_page(verb):
    description, own = _read_command(verb)
    lines = [f"# {verb}", "", _NOTE, "", *_description(description), "", "## Flags", ""]
    if verb not in BY_VERB:
        return "\n".join([*lines, *_table(own.values())])
    for group in BY_VERB[verb].groups:
        lines += [f"### {group.name}", "", f"{group.summary[0].upper()}{group.summary[1:]}.", ""]
        lines += [*_table(own[name] for name in group.flags), ""]
    return "\n".join(lines)


def _read_command(verb):
    """Returns (docstring, {name: flag}) of a command. Removes its flags again, because commands share flag names."""
    before = set(flags.FLAGS)
    content = runpy.run_module(f"keras_bert_app.cli.{verb}", run_name="reference")
    own = {name: flags.FLAGS[name] for name in sorted(set(flags.FLAGS) - before)}
    for name in own:
        delattr(flags.FLAGS, name)
    return content["__doc__"].strip(), own


def _description(docstring):
    """The lines of a command's docstring in Markdown: commands become blocks of code."""
    is_in_command = False
    for line in docstring.split("\n"):
        if line.startswith("python -m") and not is_in_command:
            yield from ("", "```sh")
            is_in_command = True
        elif is_in_command and not line.startswith(("python -m", "    ")):
            yield from ("```", "")
            is_in_command = False
        yield line if is_in_command else _prose(line)
    if is_in_command:
        yield "```"


def _table(listed):
    yield from ("| flag | takes | default | meaning |", "|---|---|---|---|")
    for flag in listed:
        meaning, default = _meaning_and_default(flag)
        yield f"| {_code('--' + flag.name)} | {_takes(flag)} | {_code(default)} | {_prose(meaning)} |"


def _takes(flag):
    if isinstance(flag.parser, flags.EnumParser):
        return " or ".join(_code(value) for value in flag.parser.enum_values if value)
    return _TYPES.get(flag.flag_type(), "list")


def _meaning_and_default(flag):
    # For the flags of a configuration, the help text states the default, because the flag itself has none.
    text = re.sub(r"^<[^>]*>: ", "", " ".join(flag.help.split()))
    meaning, named, default = text.rpartition(" Default: ") if text.endswith(".") else (text, "", "")
    if not named or " " in default:
        value = flag.default
        default = ",".join(map(str, value)) if isinstance(value, list) else "" if value is None else f"{value}."
        meaning = text
    default = default.removesuffix(".")
    return meaning, default.lower() if flag.boolean else default


def _code(text):
    """Formats text as code in a line or in a cell of a table. A bar would end the cell."""
    if "|" in text:
        return f"<code>{html.escape(text).replace('|', '&#124;')}</code>"
    return f"`{text}`" if text else ""


def _prose(line):
    """Converts a line of plain text to Markdown. Names of flags become code, and special characters are escaped."""
    parts = line.split("`")
    for number in range(0, len(parts), 2):
        text = parts[number].replace("<", "&lt;").replace("|", "&#124;").replace("*", r"\*")
        parts[number] = re.sub(r"(?<![\w`-])--\w+(=[\w./:]*\w)?", r"`\g<0>`", text)
    return "`".join(parts)


def _python_page():
    lines = ["# The functions of Python", "", _NOTE, ""]
    lines += ["[Use from Python](../python.md) shows them at work.", ""]
    for package in (keras_bert_app, pipelines):
        lines += [f"## {package.__name__}", ""]
        for name in package.__all__:
            node = _definition(package._HOMES[name], name)
            if isinstance(node, ast.ClassDef):
                lines += _class(package.__name__, node)
            else:
                lines += _function(f"{package.__name__}.{name}", node, "###")
    return "\n".join(lines)


def _definition(module, name):
    """The syntax tree of a class or a function, which lies at the top of a module."""
    tree = ast.parse((ROOT / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8"))
    return next(node for node in tree.body if getattr(node, "name", None) == name)


def _class(package, node):
    methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
    made_by = next((method for method in methods if method.name == "__init__"), None)
    parameters = _parameters(made_by) if made_by else _fields(node)
    yield from (f"### {package}.{node.name}", "")
    if parameters:
        yield from ("```python", *_signature(node.name, parameters), "```", "")
    yield from _docstring(node)
    if made_by and ast.get_docstring(made_by):
        yield from _docstring(made_by)
    for method in methods:
        if not method.name.startswith("_") and ast.get_docstring(method):
            yield from _function(f"{node.name}.{method.name}", method, "####")


def _function(name, node, heading):
    yield from (f"{heading} {name}", "")
    if not any(getattr(decorator, "id", "") == "property" for decorator in node.decorator_list):
        yield from ("```python", *_signature(name.rpartition(".")[2], _parameters(node), node.returns), "```", "")
    yield from _docstring(node)


def _parameters(node):
    """The parameters of a function as text, without self."""
    arguments = node.args
    positional = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    texts = [_parameter(*pair) for pair in zip(positional, defaults, strict=True) if pair[0].arg not in ("self", "cls")]
    if arguments.vararg:
        texts.append(f"*{ast.unparse(arguments.vararg)}")
    elif arguments.kwonlyargs:
        texts.append("*")
    texts += [_parameter(*pair) for pair in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    return texts + ([f"**{ast.unparse(arguments.kwarg)}"] if arguments.kwarg else [])


def _parameter(argument, default):
    equals = " = " if argument.annotation else "="
    return ast.unparse(argument) + (f"{equals}{ast.unparse(default)}" if default is not None else "")


def _fields(node):
    """The fields of a dataclass as text."""
    return [ast.unparse(part) for part in node.body if isinstance(part, ast.AnnAssign)]


def _signature(name, parameters, returns=None):
    result = f" -> {ast.unparse(returns)}" if returns else ""
    line = f"{name}({', '.join(parameters)}){result}"
    if len(line) <= _LONGEST_SIGNATURE:
        return [line]
    return [f"{name}(", *(f"    {parameter}," for parameter in parameters), f"){result}"]


def _docstring(node):
    """The lines of a docstring in Markdown: lists of arguments become bullets, examples become blocks of code."""
    text, *sections = _SECTION.split(ast.get_docstring(node) or "")
    yield from _paragraphs(text)
    for title, content in zip(sections[::2], sections[1::2], strict=True):
        block, _, after = re.sub(r"\n\n(?=\S)", "\0", content.strip("\n")).partition("\0")
        block = textwrap.dedent(block).strip("\n")
        yield from (f"**{title}**", "")
        if title.startswith("Example"):
            yield from ("```python", *block.split("\n"), "```", "")
        elif title in ("Returns", "Yields"):
            yield from _paragraphs(block)
        else:
            yield from (*_items(block), "")
        yield from _paragraphs(after)


def _paragraphs(text):
    for line in text.strip("\n").split("\n") if text.strip() else ():
        yield _prose(line)
    if text.strip():
        yield ""


def _items(block):
    """Makes bullets from `name: meaning` items. All lines of an item after the first are indented."""
    for item in re.split(r"\n(?=\S)", block):
        first, *others = item.split("\n")
        name, colon, meaning = first.partition(": ")
        yield f"- `{name}`: {_prose(meaning)}" if colon else f"- {_prose(first)}"
        yield from (f"  {_prose(line.strip())}" for line in others)


def main() -> None:
    if sys.argv[1:] == ["--check"]:
        if stale := stale_pages():
            sys.exit(f"stale in docs/reference: {', '.join(stale)}; `{COMMAND}` renews them")
        return
    if sys.argv[1:]:
        sys.exit(f"error: {' '.join(sys.argv[1:])}: expected --check or nothing")
    FOLDER.mkdir(exist_ok=True)
    texts = pages()
    for path in FOLDER.glob("*.md"):
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
