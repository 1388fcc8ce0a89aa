"""Which attention heads find what a mention refers to (Clark et al. 2019, What Does BERT Look At?, section 4.3).

Dimensions: L layers, N heads of each, K kinds of mentions.
"""

import collections
import dataclasses

import numpy as np

from keras_bert_app.analysis import encoders, mentions, sentences, treebank
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.progress import reported
from keras_bert_app.drawing import head_maps

SUMMARY = "heads that look from a mention to its antecedent, beside the nearest mention and the nearest of its word"
NEEDS = ("dev_file",)

KINDS = ("all", "pronoun", "proper name", "other", '"its"')
_LONGEST_WINDOW = 512  # tokens: what BERT was made for
_NUM_EXAMPLES = 6
_FEWEST = 50  # mentions of a kind; below, a remark would speak of luck


@dataclasses.dataclass(frozen=True)
class Window:
    """Sentences of one document that are encoded together.

    Attributes:
        document: its number. words: tuple of str. questions: list of (word that is the head of a mention, kinds: list
            of numbers of KINDS, candidates: int64 [C], the heads of earlier mentions, ascending; bool [C]: whether it
            is an antecedent). One antecedent at least is among them.
    """

    document: int
    words: tuple
    questions: list


def run(subject, options, log):
    trees = treebank.read_trees(options.dev_file, options.max_sentences)
    windows = windows_of(subject, trees)
    num_questions = sum(len(window.questions) for window in windows)
    log(f"{options.dev_file}: {len(trees):,} sentences in {len(windows):,} windows, {num_questions:,} mentions")
    found, examples = head_counts(subject, windows, log)
    nearest, same_word, totals = baseline_counts(windows)
    random = [head_counts(encoders.untrained(subject, seed), windows, log)[0]
              for seed in range(options.seed, options.seed + options.num_seeds)]
    rows, bests = [], []
    for kind, name in enumerate(KINDS):
        total = int(totals[kind])
        best = np.unravel_index(found[:, kind].sum(axis=0).argmax(), found.shape[2:])
        untrained = [_fair(counts[:, kind]) / max(total, 1) for counts in random]
        bests.append(best)
        rows.append([name, total, f"{best[0] + 1}-{best[1] + 1}", _fair(found[:, kind]) / max(total, 1),
                     float(nearest[kind]) / max(total, 1), float(same_word[kind]) / max(total, 1),
                     float(np.mean(untrained)), float(np.std(untrained))])
    accuracy = found.sum(axis=0) / np.maximum(totals, 1)[:, None, None]
    picture = head_maps.draw_head_maps(
        [(f"{name} ({rows[kind][1]:,})", accuracy[kind], max(rows[kind][4:6])) for kind, name in enumerate(KINDS)],
        f"{subject.name}: how often each head finds an antecedent\ndashed line of the scale: the better baseline")
    tables = [Table("The best head for each kind of mention", (
        "mention", "count", "head", "accuracy", "nearest", "same word", "untrained", "spread"), rows)]
    if examples:
        tables.append(_examples_table(examples, bests[KINDS.index("pronoun")]))
    return Findings("coreference", f"Coreference: {subject.name}", tables, _remarks(rows, options),
                    {"coreference.png": picture}, {"kinds": KINDS, "accuracy": accuracy.tolist()})


def windows_of(subject, trees):
    """list of Window: consecutive sentences of a document, as many as fit into the encoder's positions."""
    spoken = collections.defaultdict(list)
    for mention in mentions.read_mentions(trees):
        spoken[mention.sentence].append(mention)
    sizes = sentences.num_tokens(subject, [tree.words for tree in trees]) - 2
    limit = min(_LONGEST_WINDOW, subject.config.max_position_embeddings) - 2
    groups = []
    for number, (tree, size) in enumerate(zip(trees, sizes)):
        if not groups or trees[groups[-1][0]].document != tree.document or used + size > limit:
            groups.append([])
            used = 0
        groups[-1].append(number)
        used += size
    return [_window([(trees[number], spoken[number]) for number in group]) for group in groups]


def _window(ours):
    words, questions, earlier = (), [], []  # earlier: (head in the window, entity)
    for tree, spoken in ours:
        for mention in spoken:
            head = len(words) + mention.head
            candidates = np.array(sorted({other for other, _ in earlier if other < head}), np.int64)
            antecedents = {other for other, entity in earlier if other < head and entity == mention.entity}
            if antecedents:
                word, tag = tree.words[mention.head].lower(), tree.tags[mention.head]
                kinds = [0, {"PRON": 1, "PROPN": 2}.get(tag, 3)] + [4] * (word == "its")
                questions.append((head, kinds, candidates, np.array([other in antecedents for other in candidates])))
            earlier.append((head, mention.entity))
        words += tree.words
    return Window(ours[0][0].document, words, questions)


def head_counts(subject, windows, log):
    """(int64 [2, K, L, N]: how often the candidate that the mention's head attends to most is an antecedent, axis 0 in
    documents of even and of odd number; examples of "its": list of (words around it, str [L, N]: the heads'
    answers, bool [L, N]: whether they are right, the nearest antecedent))."""
    config = subject.config
    counts = np.zeros((2, len(KINDS), config.num_hidden_layers, config.num_attention_heads), np.int64)
    examples = []
    encoded = sentences.encode(subject, [window.words for window in windows], with_attention=True)
    for one in reported(encoded, len(windows), f"windows through {subject.name}", log):
        window = windows[one.number]
        attention = one.word_attention()
        for head, kinds, candidates, is_right in window.questions:
            answers = attention[:, :, 1 + head, 1 + candidates].argmax(axis=2)
            counts[window.document % 2, kinds] += is_right[answers]
            if 4 in kinds:
                right = window.words[candidates[np.flatnonzero(is_right)[-1]]]
                examples.append((window.words[max(0, head - 24):head + 2], np.array(window.words)[candidates[answers]],
                                 is_right[answers], right))
    return counts, examples


def baseline_counts(windows):
    """(int64 [K]: how often the nearest earlier mention is an antecedent; the nearest whose head is the same word, or
    else the nearest; the mentions)."""
    nearest, same_word, totals = np.zeros((3, len(KINDS)), np.int64)
    for window in windows:
        words = [word.lower() for word in window.words]
        for head, kinds, candidates, is_right in window.questions:
            same = [place for place, other in enumerate(candidates) if words[other] == words[head]]
            totals[kinds] += 1
            nearest[kinds] += is_right[-1]
            same_word[kinds] += is_right[same[-1] if same else -1]
    return nearest, same_word, totals


def _fair(counts):
    """Right answers of counts [2, L, N] when each half is counted with the head that is best on the other."""
    flat = counts.reshape(2, -1)
    return int(flat[0, flat[1].argmax()] + flat[1, flat[0].argmax()])


def _examples_table(examples, best):
    rows = [[" ".join(words), str(answers[best]), "yes" if is_right[best] else f"no: {right}"]
            for words, answers, is_right, right in examples[:_NUM_EXAMPLES]]
    return Table(f'What head {best[0] + 1}-{best[1] + 1}, the best at pronouns, looks at from "its"',
                 ("text", "answer", "right"), rows)


def _remarks(rows, options):
    above = [row for row in rows if row[1] >= _FEWEST and row[3] > max(row[4:6]) + 0.01]
    return [
        ("A head is above both baselines at "
         + ", ".join(f"{row[0]} ({row[2]}: {row[3]:.0%}, baseline {max(row[4:6]):.0%})" for row in above) + "."
         if above else
         "No head is above both baselines at any kind of mention: Clark et al.'s coreference head does not show here."),
        "A head's answer is the earlier mention whose head word the mention's head word attends to most; same word: "
        "the nearest mention with the same head word, or else the nearest. All earlier mentions of the window are "
        "candidates; only mentions with an antecedent in it are asked for.",
        "Best heads are chosen in one half of the documents and counted in the other, both ways; the ones named are "
        f"the best on all. untrained: encoders of random weights ({options.num_seeds}), mean and standard deviation."]
