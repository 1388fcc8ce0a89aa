"""The embedded default corpus: English prose from the documentation of installed Python packages.

Every machine that runs this application has some megabytes of such text. It consists of the docstrings of the standard
library and of site-packages, and of the language reference that `help()` shows (pydoc_data.topics). Python files are
parsed with `ast` and never imported. The module needs the standard library only.
"""

import ast
import gc
import json
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import warnings
from collections.abc import Iterable, Iterator

from pipelines import processors
from pipelines.data_error import DataError
from pipelines.text.docstring_text import docstring_sentences

# A document ends before the first docstring that starts after this number of sentences.
MAX_SENTENCES_PER_DOCUMENT = 64
MIN_SENTENCES_PER_DOCUMENT = 2  # next-sentence prediction needs pairs of sentences
MIN_FILES_FOR_WORKERS = 100
MAX_WORKERS = 8

_SKIPPED_DIRECTORIES = frozenset("__pycache__ site-packages dist-packages test tests idle_test".split())
_SKIPPED_FILES = re.compile(r"(?:test_.*|.*_test|.*_tests|conftest|.*_pb2|.*_pb2_grpc)\.py$")
_VENDORED = re.compile(r".*/(?:_vendor|_vendored|vendored|extern)/(.*)")
_TOPICS = "pydoc_data/topics.py"


def installed_documents(roots: Iterable[str] | None = None) -> Iterator[list[str]]:
    """Yields the documents of installed_modules, one after the other.

    Args:
        roots: as in installed_modules.

    Yields:
        list of at least two sentences (str, one line, no markup).
    """
    for documents in installed_modules(roots):
        yield from documents


def installed_modules(roots: Iterable[str] | None = None) -> Iterator[list[list[str]]]:
    """Yields the default corpus, a list of documents for each module.

    A document has the docstring of a module, then the docstrings of its classes and functions in source order. A long
    module gives several documents. Each topic of pydoc_data.topics counts as a module. Classes, packages and generated
    aliases copy docstrings from each other. The corpus therefore keeps a sentence only at its first occurrence. The
    comparison of sentences looks at their letters alone. Files that do not parse are skipped.

    Args:
        roots: directories to search, in order; by default the standard library and the site-packages directories of the
            running interpreter. The documents do not depend on the location of a root.

    Yields:
        list of documents, not empty. A document is a list of at least two sentences (str, one line, no markup).

    Raises:
        DataError: a root is not a directory.
    """
    roots = _default_roots() if roots is None else list(roots)
    for root in roots:
        if not os.path.isdir(root):
            raise DataError(
                f"the directory {root!r} for Python sources does not exist; give directories that exist, or leave "
                "roots out to read the standard library and site-packages"
            )
    files = [path for root in roots for path in _source_files(root)]
    seen: set[str] = set()
    for groups in _read_all(files):
        documents: list[list[str]] = []
        for starts_module, sentences in groups:
            if starts_module:
                yield from _with_pairs(documents)
                documents = [[]]
            elif len(documents[-1]) >= MAX_SENTENCES_PER_DOCUMENT:
                documents.append([])
            documents[-1] += _first_occurrences(sentences, seen)
        yield from _with_pairs(documents)


def _with_pairs(documents: list[list[str]]) -> Iterator[list[list[str]]]:
    """Yields one list with the documents that are long enough, or nothing if no document is."""
    if long_enough := [document for document in documents if len(document) >= MIN_SENTENCES_PER_DOCUMENT]:
        yield long_enough


def _first_occurrences(sentences: list[str], seen: set[str]) -> Iterator[str]:
    for sentence in sentences:
        key = re.sub(r"[^a-z]+", " ", sentence.lower()).strip()
        if key not in seen:
            seen.add(key)
            yield sentence


def _default_roots() -> list[str]:
    paths = (sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
    return list(dict.fromkeys(os.path.realpath(path) for path in paths if path))


def _source_files(root: str) -> list[str]:
    """Returns the paths of the Python sources under root, sorted by their path relative to it."""
    relative_paths = []
    for directory, subdirectories, names in os.walk(root):
        subdirectories[:] = [name for name in subdirectories if name not in _SKIPPED_DIRECTORIES]
        for name in names:
            if name.endswith(".py") and not _SKIPPED_FILES.match(name):
                relative_path = os.path.relpath(os.path.join(directory, name), root)
                relative_paths.append(relative_path.replace(os.sep, "/"))
    installed = set(relative_paths)
    return [
        os.path.join(root, path)
        for path in sorted(installed)
        if not ((vendored := _VENDORED.match(path)) and vendored.group(1) in installed)
    ]


def _docstrings(tree: ast.Module) -> Iterator[str]:
    """Yields the docstrings of a module in source order.

    These are all string statements, docstrings of attributes included, and texts that are arguments of functions such
    as NumPy's add_newdoc.
    """
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Expr):
            value = node.value
            if isinstance(value, ast.Call) and "doc" in _source_of(value.func):
                arguments = [a for group in value.args for a in getattr(group, "elts", [group])]
                texts = [a for a in arguments if isinstance(a, ast.Constant)]
            else:
                texts = [value] if isinstance(value, ast.Constant) else []
            yield from (text.value for text in texts if isinstance(text.value, str))
        else:
            for field in ("handlers", "finalbody", "orelse", "body"):
                children = getattr(node, field, None)
                if isinstance(children, list):
                    stack += reversed(children)


def _source_of(node: ast.expr) -> str:
    try:
        return ast.unparse(node)
    except RecursionError:  # hundreds of chained calls, which add no documentation
        return ""


def _topics(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            yield from (ast.literal_eval(value) for value in node.value.values)


def read_file(path: str, seen_docstrings: set[str]) -> list[tuple[bool, list[str]]]:
    """Reads the docstrings of one source file, without those that occurred before.

    Args:
        path: str.
        seen_docstrings: set of str. The docstrings that occurred before; new ones are added.

    Returns:
        list of (whether a module or topic starts here, sentences); [] for a file that is not valid Python.
    """
    try:
        with open(path, "rb") as file:
            source = file.read()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in foreign files cause warnings
            tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    is_topics = path.replace(os.sep, "/").endswith(_TOPICS)
    groups = []
    for text in _topics(tree) if is_topics else _docstrings(tree):
        if text not in seen_docstrings:
            seen_docstrings.add(text)
            groups.append((is_topics or not groups, docstring_sentences(text)))
    return groups


def _read_all(paths: list[str]) -> Iterator[list[tuple[bool, list[str]]]]:
    """Yields read_file of every path, in order, on all cores.

    The workers are plain subprocesses: multiprocessing would fork a process in which TensorFlow runs threads, or import
    the caller's __main__ again. Worker w of n reads every n-th file from the w-th on and writes one line of JSON per
    file. The lines are read in turn, which restores the order; a full pipe stops a worker that is too fast.
    """
    num_workers = min(processors.num_cores(), MAX_WORKERS)
    if num_workers == 1 or len(paths) < MIN_FILES_FOR_WORKERS or not sys.executable:
        seen_docstrings: set[str] = set()
        yield from (read_file(path, seen_docstrings) for path in paths)
        return
    project = str(pathlib.Path(__file__).resolve().parents[2])
    program = f"import sys; sys.path.insert(0, {project!r}); from pipelines.text import installed_docs as d; d._work()"
    command = [sys.executable, "-P", "-c", program]
    workers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(num_workers)]
    try:
        for number, worker in enumerate(workers):
            worker.stdin.write(json.dumps([os.path.abspath(path) for path in paths[number::num_workers]]).encode())
            worker.stdin.close()
        for number in range(len(paths)):
            line = workers[number % num_workers].stdout.readline()
            if not line.endswith(b"\n"):
                raise RuntimeError(f"a worker that reads Python sources ended early, at {paths[number]}")
            yield json.loads(line)
    finally:  # the caller may also stop early
        for worker in workers:
            worker.kill()
            worker.stdout.close()
            worker.wait()


def _work() -> None:
    gc.disable()  # syntax trees are large and have no cycles to collect
    seen_docstrings: set[str] = set()
    for path in json.loads(sys.stdin.buffer.read()):
        sys.stdout.write(json.dumps(read_file(path, seen_docstrings)) + "\n")
        sys.stdout.flush()
