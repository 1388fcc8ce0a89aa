"""Questions of coreference: a question has one mention and the earlier mentions of its window.

The encoder reads all sentences of a window together.

Dimensions: K kinds of mentions, Q questions (mentions with an antecedent).
"""

import collections
import dataclasses
import typing

import numpy as np

from keras_bert_app.analysis import encoded_sentences, mentions, treebank
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.errors import UserError

KINDS = ("all", "pronoun", "proper name", "other", '"its"')
_LONGEST_WINDOW = 512  # tokens; BERT was pre-trained on rows of this length


class Question(typing.NamedTuple):
    """A mention with C candidates, at least one of which is an antecedent.

    Attributes:
        head: int. The head word of the mention.
        kinds: list of int. The kinds of the mention in KINDS.
        candidates: int64 [C]. The head words of earlier mentions, ascending.
        is_antecedent: bool [C].
    """

    head: int
    kinds: list
    candidates: np.ndarray
    is_antecedent: np.ndarray


@dataclasses.dataclass(frozen=True)
class Window:
    """Sentences of one document that are encoded together.

    Attributes:
        document: int. The number of the document.
        words: tuple of str.
        questions: list of Question.
    """

    document: int
    words: tuple
    questions: list


def windows_of(subject: Subject, trees: list[treebank.Tree]) -> tuple[list[Window], int]:
    """Groups consecutive sentences of a document into windows that fit into the encoder's positions.

    Args:
        subject: Subject. The encoder.
        trees: list of treebank.Tree.

    Returns:
        (list of Window, int): the windows, and the number of sentences that are too long for any window.

    Raises:
        UserError: no mention has an antecedent in its window.
    """
    mentions_by_sentence = collections.defaultdict(list)
    for mention in mentions.read_mentions(trees):
        mentions_by_sentence[mention.sentence].append(mention)
    sizes = encoded_sentences.num_tokens(subject, [tree.words for tree in trees]) - 2
    most = subject.config.max_position_embeddings - 2
    limit = min(_LONGEST_WINDOW - 2, most)
    groups, window_size = [], 0
    for number, (tree, size) in enumerate(zip(trees, sizes, strict=True)):
        if size > most:
            continue
        if not groups or trees[groups[-1][0]].document != tree.document or window_size + size > limit:
            groups.append([])
            window_size = 0
        groups[-1].append(number)
        window_size += size
    windows = [_window([(trees[number], mentions_by_sentence[number]) for number in group]) for group in groups]
    if not any(window.questions for window in windows):
        raise UserError(
            f"{trees[0].path}: no mention of the {len(trees):,} sentences that were read has an antecedent in its "
            f"window of at most {limit} pieces; give more sentences"
        )
    return windows, int(np.sum(sizes > most))


def _window(sentences):
    words, questions, earlier = (), [], []  # earlier: (head in the window, entity)
    for tree, sentence_mentions in sentences:
        for mention in sentence_mentions:
            head = len(words) + mention.head
            candidates = np.array(sorted({other for other, _ in earlier if other < head}), np.int64)
            antecedents = {other for other, entity in earlier if other < head and entity == mention.entity}
            if antecedents:
                word, tag = tree.words[mention.head].lower(), tree.tags[mention.head]
                kinds = [0, {"PRON": 1, "PROPN": 2}.get(tag, 3)] + [4] * (word == "its")
                is_antecedent = np.array([other in antecedents for other in candidates])
                questions.append(Question(head, kinds, candidates, is_antecedent))
            earlier.append((head, mention.entity))
        words += tree.words
    return Window(sentences[0][0].document, words, questions)


@dataclasses.dataclass(frozen=True)
class Places:
    """The places of the Q questions of all windows, in the order of windows and of their questions.

    Attributes:
        windows: int64 [Q]. The window of each question.
        documents: int64 [Q]. The document of each question.
        kinds: bool [Q, K]. The kinds of each mention.
    """

    windows: np.ndarray
    documents: np.ndarray
    kinds: np.ndarray


def places_of(windows: list[Window]) -> Places:
    """Lists the places of the questions of all windows.

    Args:
        windows: list of Window.

    Returns:
        Places.
    """
    asked = [
        (number, window.document, kinds) for number, window in enumerate(windows) for _, kinds, *_ in window.questions
    ]
    return Places(
        *(np.array([question[at] for question in asked]) for at in (0, 1)),
        np.array([[kind in kinds for kind in range(len(KINDS))] for *_, kinds in asked]),
    )


def baseline_answers(windows: list[Window]) -> np.ndarray:
    """Checks the answers of the two baselines.

    The first baseline answers with the nearest earlier mention. The second answers with the nearest earlier mention
    that has the same head word, or else with the nearest one.

    Args:
        windows: list of Window.

    Returns:
        bool [2, Q]. Whether each answer is an antecedent.
    """
    is_right_pairs = []
    for window in windows:
        words = [word.lower() for word in window.words]
        for head, _, candidates, is_right in window.questions:
            same = [place for place, other in enumerate(candidates) if words[other] == words[head]]
            is_right_pairs.append((is_right[-1], is_right[same[-1] if same else -1]))
    return np.array(is_right_pairs).T
