"""The corpus of a small source tree has the expected sentences, which these tests list by hand."""

import sysconfig

import pytest

from pipelines.text import installed_docs
from pipelines.text.docstring_text import docstring_sentences, is_prose, split_sentences, without_markup
from pipelines.text.installed_docs import installed_documents, installed_modules

MODULE = '''"""Tools that read the clock of a machine.

The clock is read once and the answer is kept for a second.
"""

class Clock:
    """A clock that can be stopped at any time."""

    rate = 2
    """The number of ticks that make up one second."""

    def stop(self):
        """Stops the clock until it is started again."""
        if True:
            def inner():
                """Waits for the hand to come to rest."""

async def tick():
    """Moves the hand of the clock by one tick."""
'''
MODULE_SENTENCES = [
    "Tools that read the clock of a machine.",
    "The clock is read once and the answer is kept for a second.",
    "A clock that can be stopped at any time.",
    "The number of ticks that make up one second.",
    "Stops the clock until it is started again.",
    "Waits for the hand to come to rest.",
    "Moves the hand of the clock by one tick.",
]


def write(root, files):
    for name, source in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source if isinstance(source, bytes) else source.encode())
    return [str(root)]


def two_sentences(word):
    return f'"""The {word} is on the table. It was put there by the {word} maker."""\n'


def document(word):
    return [f"The {word} is on the table.", f"It was put there by the {word} maker."]


def test_a_module_is_one_document_with_its_docstrings_in_source_order(tmp_path):
    assert list(installed_documents(write(tmp_path, {"clock.py": MODULE}))) == [MODULE_SENTENCES]


def test_files_without_usable_docstrings_give_nothing(tmp_path):
    roots = write(tmp_path, {
        "empty.py": "",
        "syntax_error.py": '"""The first line of this is fine. The rest of it is not."""\ndef (',
        "null_byte.py": b'"""The first line of this is fine. The rest of it is not."""\n\0',
        "bad_encoding.py": b'"""The caf\xe9 is open for the guests. They sit in the sun."""\n',
        "no_docstring.py": "x = 'This is a string but not a docstring. It is assigned to a name.'\n",
        "one_sentence.py": '"""This document has only the one sentence."""\n',
        "deep.py": "x = " + "(" * 500 + ")" * 500,
        "chained.py": "builder()" + ".add(1)" * 400,
        "notes.txt": two_sentences("text"),
    })  # fmt: skip
    assert list(installed_documents(roots)) == []


def test_the_coding_cookie_of_a_source_is_honoured(tmp_path):
    source = '# -*- coding: latin-1 -*-\n"""The café is open for the guests. They all sit in the sun."""\n'
    roots = write(tmp_path, {"cafe.py": source.encode("latin-1")})
    assert list(installed_documents(roots)) == [["The café is open for the guests.", "They all sit in the sun."]]


def test_tests_generated_files_and_vendored_copies_of_installed_modules_are_skipped(tmp_path):
    roots = write(tmp_path, {
        "tests/a.py": two_sentences("apple"), "pkg/test/b.py": two_sentences("pear"),
        "test_c.py": two_sentences("plum"), "d_test.py": two_sentences("fig"), "e_pb2.py": two_sentences("nut"),
        "pkg/site-packages/f.py": two_sentences("lime"),
        "tool/_vendor/six.py": two_sentences("old cup"), "six.py": two_sentences("cup"),
        "tool/_vendor/only_here.py": two_sentences("spoon"),
    })  # fmt: skip
    assert list(installed_documents(roots)) == [document("cup"), document("spoon")]


def test_documents_do_not_depend_on_where_the_tree_lies(tmp_path):
    words = {"b/c.py": "cup", "a.py": "spoon", "b.py": "knife", "b/a/d.py": "fork", "B.py": "plate"}
    files = {name: two_sentences(word) for name, word in words.items()}
    documents = list(installed_documents(write(tmp_path / "zoo", files)))
    moved = list(installed_documents(write(tmp_path / "test" / "x", dict(reversed(files.items())))))
    assert documents == moved == [document(word) for word in ("plate", "spoon", "knife", "fork", "cup")]


def test_a_sentence_is_kept_at_its_first_occurrence_across_roots(tmp_path):
    first = write(tmp_path / "one", {"z.py": two_sentences("cup")})
    second = write(tmp_path / "two", {
        "a.py": '"""THE `cup` is on the table. A new thing stands here. So does this old thing."""',
        "b.py": '"""The cup is on the table. One new sentence makes no pair."""',
    })  # fmt: skip
    assert list(installed_documents(first + second)) == [
        document("cup"),
        ["A new thing stands here.", "So does this old thing."],
    ]


def test_a_long_module_is_cut_between_docstrings(tmp_path):
    numbers = "one two three four five six seven eight nine ten".split()
    functions = [
        f'def f{i}{j}():\n    """The {a} is above the {b} here. There is a {a} below {b} too."""\n'
        for i, a in enumerate(numbers) for j, b in enumerate(numbers)
    ]  # fmt: skip
    (documents,) = installed_modules(write(tmp_path, {"long.py": "".join(functions)}))
    assert [len(sentences) for sentences in documents] == [64, 64, 64, 8]
    assert documents[1][:2] == ["The four is above the three here.", "There is a four below three too."]


def test_each_topic_of_pydoc_is_a_document(tmp_path):
    topics = {
        "a": "The first topic is about names. A name is bound to an object.",
        "b": "Heads of rules\n**************\n\nA rule has a head and a body. It is never empty here.",
    }
    roots = write(tmp_path, {"pydoc_data/topics.py": f"topics = {topics!r}\n"})
    assert list(installed_modules(roots)) == [
        [["The first topic is about names.", "A name is bound to an object."]],
        [["A rule has a head and a body.", "It is never empty here."]],
    ]


def test_texts_that_are_arguments_of_add_newdoc_are_read(tmp_path):
    source = 'add_newdoc("m", "x", ("size", """The size of it in bytes. It is never below zero."""))\n'
    roots = write(tmp_path, {"added.py": source})
    assert list(installed_documents(roots)) == [["The size of it in bytes.", "It is never below zero."]]


def test_workers_give_the_same_documents_in_the_same_order_as_one_process(tmp_path, monkeypatch):
    words = [f"{a}{b}" for a in "bdfg" for b in ("ar", "el", "in", "ot", "us", "ap", "en", "ix", "ol", "um")]
    roots = write(tmp_path, {f"m{i:03}.py": two_sentences(word) for i, word in enumerate(words)})
    monkeypatch.setattr(installed_docs, "MIN_FILES_FOR_WORKERS", 10**9)
    alone = list(installed_documents(roots))
    monkeypatch.setattr(installed_docs, "MIN_FILES_FOR_WORKERS", 1)
    monkeypatch.setattr(installed_docs.processors, "num_cores", lambda: 3)
    assert list(installed_documents(roots)) == alone == [document(word) for word in words]
    stopped_early = installed_documents(roots)
    assert next(stopped_early) == alone[0]
    stopped_early.close()


def test_the_error_names_a_root_that_is_no_directory():
    with pytest.raises(ValueError, match="no-such-place"):
        list(installed_documents(["no-such-place"]))


def test_google_sections_keep_descriptions_and_lose_names_and_code():
    assert docstring_sentences('''Reads a file from the disk.

    Args:
      path: The place of the file, which may
        also be a `gs://` path.
      mode (str, optional): How the file is to be opened.
      size: int.
    Returns:
      A list of the lines. It is empty for an empty file.
    Raises:
      OSError: If the file is not there.

    Example:

    ```python
    for line in read(path): print(the_line_of_it)
    ```

    >>> read("this is a call and not prose at all")
    ['and this is the output of it']

    The end of the text is here.
    ''') == [
        "Reads a file from the disk.",
        "The place of the file, which may also be a gs:// path.",
        "How the file is to be opened.",
        "A list of the lines.",
        "It is empty for an empty file.",
        "Raises OSError if the file is not there.",
        "The end of the text is here.",
    ]  # fmt: skip


def test_numpy_sections_keep_descriptions_and_lose_terms_references_and_tables():
    assert docstring_sentences('''
    sort(a, axis=-1)

    Return a sorted copy of an array.

    Parameters
    ----------
    a : array_like
        The array that is to be sorted.
    axis : {int, None}, optional
        The axis along which to sort.

    See Also
    --------
    argsort : This is the one for an indirect sort.

    Notes
    -----
    The kinds of sort differ in their speed
    and in the space that they need.

    ======  =====  ========
     kind   speed   the work
    ======  =====  ========
    'quick'   1     this is in a table and not in the text
    ======  =====  ========

    .. math:: this is a formula and not prose

    References
    ----------
    .. [1] This is a book about the sorting of things.
    ''') == [
        "Return a sorted copy of an array.",
        "The array that is to be sorted.",
        "The axis along which to sort.",
        "The kinds of sort differ in their speed and in the space that they need.",
    ]  # fmt: skip


def test_restructured_text_loses_directives_fields_and_literal_blocks():
    assert docstring_sentences('''Opens the :class:`~a.b.Door` with a **big** key.

    .. note:: The door is heavy, so be
       careful with your hands.
    .. image:: this is the name of a picture

    It is used like this::

        this is a literal block and it goes away

        and so does the second part of it

    :param key: The key that fits the lock.
    :type key: this is the type of the key
    :raises KeyError: if the key does not fit.

    * An item of a list that
      goes over two lines.
    * `name`: The name on the door.
    ''') == [
        "Opens the a.b.Door with a big key.",
        "The door is heavy, so be careful with your hands.",
        "It is used like this:",
        "The key that fits the lock.",
        "Raises KeyError if the key does not fit.",
        "An item of a list that goes over two lines.",
        "The name on the door.",
    ]  # fmt: skip


def test_sentences_are_not_cut_after_abbreviations_initials_and_versions():
    text = 'Use a list, e.g. "A" or i.e. B. It is by J. Smith et al. There (in 2.x. Python). "Yes!" he said. no cut'
    assert split_sentences(text) == [
        'Use a list, e.g. "A" or i.e. B. It is by J. Smith et al. There (in 2.x. Python).',
        '"Yes!" he said. no cut',
    ]


@pytest.mark.parametrize("marked, plain", [
    ("``a`` and `b` and :func:`c`", "a and b and c"),
    ("see [the page](http://x.y/z) or `this <http://x.y>`_", "see the page or this"),
    ("a *bit* of **text** [1]_ here", "a bit of text here"),
    ("x * y * z and __init__ stay", "x * y * z and __init__ stay"),
    ("known (see https://x.y/z) things", "known things"),
])  # fmt: skip
def test_markup_is_removed(marked, plain):
    assert without_markup(marked) == plain


@pytest.mark.parametrize("text, kept", [
    ("This is a sentence of the usual kind.", True),
    ("Return the name of the file", True),
    ("Too few words.", False),
    ("This line was cut off in the", False),
    ("float32, int64, uint8, complex64, bfloat16, qint8.", False),
    ("The value is x[i, j] = y[j, i] + z(k) * 2.", False),
    ("This bracket (is never closed again.", False),
    ("Licensed under the terms of the Apache License.", False),
    ("It holds that $x$ is a number.", False),
    ("the " * 121 + "end.", False),
])  # fmt: skip
def test_only_english_sentences_pass(text, kept):
    assert is_prose(text) == kept


def test_the_standard_library_alone_gives_hundreds_of_documents_of_plain_sentences():
    documents = list(installed_documents([sysconfig.get_path("stdlib")]))
    sentences = [sentence for document in documents for sentence in document]
    assert len(documents) > 500 and len(sentences) > 15_000
    assert len(set(sentences)) == len(sentences)
    assert min(map(len, documents)) >= 2
    assert all(sentence == " ".join(sentence.split()) and len(sentence.split()) >= 4 for sentence in sentences)


def test_no_package_is_imported(tmp_path):
    roots = write(tmp_path, {"bomb.py": two_sentences("bomb") + "raise SystemExit('imported')\n"})
    assert list(installed_documents(roots)) == [document("bomb")]
