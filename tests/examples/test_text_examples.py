"""The examples about texts run to their tables at toy length."""

import json

import numpy as np
import pytest

from examples.common import keep_settings
from examples.comparisons import over_examples
from examples.domains import domains
from examples.ernie_entities import ernie_entities, linked_text
from examples.ernie_entities.entities import graph, mentions, nearer_share, transe
from examples.ernie_masking import ernie_masking, hidden_titles
from examples.multilingual import multilingual
from examples.patents import patents
from examples.relations import relations, semeval_scores
from examples.stages import stages

SENTENCES = [f"{a} town <e1> {b} town </e1> and <e2> {c} town </e2> ." for a in "abc" for b in "ae" for c in "ei"]


def write_semeval(directory):
    directory.mkdir()
    labels = ("Other", "Cause-Effect(e1,e2)", "Cause-Effect(e2,e1)")
    lines = [f"{labels[number % 3]}\t{sentence}\n" for number, sentence in enumerate(SENTENCES)]
    for part in ("train", "test"):
        (directory / f"{part}.tsv").write_text("".join(lines))
    return str(directory)


@pytest.mark.slow
def test_relations_are_classified_in_three_ways(tmp_path, tiny_model, capsys, monkeypatch):
    monkeypatch.setattr(relations, "_EACH", 4)  # sentences 0, 4 and 8: one of each label
    given = (str(tmp_path / "my relations"), write_semeval(tmp_path / "sem eval"), str(tiny_model))
    relations.main(*given, part="validation", epochs=1, num_seeds=1)
    found = json.loads((tmp_path / "my relations" / "results.json").read_text())
    assert list(found) == list(relations.KINDS)
    assert all(0 <= run["macro-F1"] <= 1 and len(run["answers"]) == 3 for runs in found.values() for run in runs)
    printed = capsys.readouterr().out
    assert "| the most frequent relation | " in printed and "(R-BERT), minus [CLS] of the plain" in printed
    with pytest.raises(SystemExit, match="give another --output_dir"):
        relations.main(*given, part="validation", epochs=2, num_seeds=1)


def test_settings_may_change_until_something_ran_with_them(tmp_path):
    keep_settings(str(tmp_path), learning_rate=-1)
    keep_settings(str(tmp_path), learning_rate=1e-4)
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(
        SystemExit, match="settings.json has .*0.0001.*this start has .*0.01.*give another --output_dir"
    ):
        keep_settings(str(tmp_path), learning_rate=1e-2)
    keep_settings(str(tmp_path), learning_rate=1e-4)


def test_markers_and_nominals_stand_at_their_places(tiny_model):
    tokenizer = relations.BertTokenizer.from_directory(str(tiny_model))
    ((ids, first, second),) = relations.rows(tokenizer, [("a ", " b c ", " d ", " e ", " .")], has_markers=True)
    pieces = np.array(tokenizer.vocabulary)[ids]
    assert " ".join(pieces) == "[CLS] a $ b c $ d # e # . [SEP]"
    assert " ".join(pieces[first > 0]) == "$ b c $" and " ".join(pieces[second > 0]) == "# e #"
    ((ids, *both),) = relations.rows(tokenizer, [("a ", " b c ", " d ", " e ", " .")], True, means="sentence")
    assert all(places.tolist() == [1] * len(ids) for places in both)


def test_the_linear_baseline_of_relations_reads_the_words_between():
    train = [("a", "b", word, "c", "d") for word in (" in ", " in ", " from ", " from ")]
    names = ["A-B(e1,e2)", "A-B(e1,e2)", "C-D(e1,e2)", "C-D(e1,e2)"]
    test = [("in", "in", " from ", "in", "in"), ("from", "from", " in ", "from", "from")]
    assert semeval_scores.words_between_f1(train, names, test, ["C-D(e1,e2)", "A-B(e1,e2)"]) == 1.0


def test_macro_f1_counts_directions_and_leaves_out_other():
    right = ["A-B(e1,e2)", "A-B(e2,e1)", "C-D(e1,e2)", "Other"]
    given = ["A-B(e1,e2)", "A-B(e1,e2)", "Other", "C-D(e1,e2)"]
    assert semeval_scores.macro_f1(right, given) == pytest.approx((2 * 1 / 4 + 0) / 2)
    # The first example alone, and the first and the third.
    counts = np.array([[1, 0, 0, 0], [1, 0, 1, 0]])
    assert semeval_scores.macro_f1(right, given, counts).tolist() == [0.5, 0.5]


@pytest.mark.slow
def test_stages_train_a_target_directly_and_after_another_task(tmp_path, tiny_model, capsys):
    for name in ("MRPC", "RTE"):
        (tmp_path / name).mkdir()
    head = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    pairs = [(a, b) for a in "abcdef" for b in "ghij"]
    mrpc = [f"{number % 2}\t1\t2\t{a} x\t{b} y\n" for number, (a, b) in enumerate(pairs)]
    rte = [f"{n}\t{a} z\t{b}\t{('entailment', 'not_entailment')[n % 2]}\n" for n, (a, b) in enumerate(pairs)]
    for part in ("train", "dev"):
        (tmp_path / "MRPC" / f"{part}.tsv").write_text(head + "".join(mrpc))
        (tmp_path / "RTE" / f"{part}.tsv").write_text("index\tsentence1\tsentence2\tlabel\n" + "".join(rte))
    changes = {"num_train_epochs": 1, "max_seq_length": 16}
    directory = str(tmp_path / "my stages")
    (tmp_path / "my stages").mkdir()
    codah = {"after": "dream", "examples": 9, "constant answer": 0.2, "difference": "+0.1"}
    codah |= {"direct": [0.3], "after another task": [0.4], "interval over examples": [0.0, 0.2]}
    codah |= {"scores of the middle task": [0.5], "its constant answer": 0.4}
    (tmp_path / "my stages" / "results.json").write_text(json.dumps({"codah": codah}))  # of an earlier start
    stages.main(directory, str(tmp_path), str(tiny_model), targets=("rte",), num_seeds=2, **changes)
    results = json.loads((tmp_path / "my stages" / "results.json").read_text())["rte"]
    assert results["after"] == "mrpc" and results["constant answer"] == 0.5 and results["examples"] == 24
    assert len(results["direct"]) == len(results["after another task"]) == 2
    printed = capsys.readouterr().out
    assert "| rte, 24 examples; after mrpc | " in printed and "| codah, 9 examples; after dream | " in printed
    assert "| mrpc | 0." in printed and "| dream | 0.400 | 0.500 |" in printed


def test_a_difference_has_an_interval_over_examples_and_one_over_seeds():
    figures = stages.compared([[1, 0, 0, 0], [1, 1, 0, 0]], [[1, 1, 1, 0], [1, 1, 1, 1]])
    assert figures["direct"] == [0.25, 0.5] and figures["difference"].startswith("+0.500 (-")
    low, high = figures["interval over examples"]
    assert 0 <= low < 0.5 < high <= 1
    assert over_examples([[1, 1, 0, 0]], [[0, 0, 0, 0]], groups=[7, 7, 9, 9]).tolist() == [0, 1]  # two articles


def test_topics_are_scored_at_each_level_of_the_tree(tmp_path, tiny_model, capsys):
    documents = []
    for number in range(60):
        topics = (("wheat", "grain"), ("gold",), ("earn",))[number % 3]
        tags = "".join(f"<D>{topic}</D>" for topic in topics)
        part, word = ("TRAIN", "TEST")[number >= 40], ("maize", "metal", "profit")[number % 3]
        title, body = f"{word} {'xyzuvw'[number % 6]}", f"{word} {'opqrst'[number % 6]}{'uvwxyz'[number // 10]}"
        documents.append(
            f'<REUTERS TOPICS="YES" LEWISSPLIT="{part}" NEWID="{number}"><TOPICS>{tags}</TOPICS>'
            f"<TEXT><TITLE>{title}</TITLE><BODY>{body} {word}</BODY></TEXT></REUTERS>\n"
        )
    (tmp_path / "reut2-000.sgm").write_text("".join(documents))
    settings = {"num_seeds": 1, "num_train_epochs": 1, "max_seq_length": 16}
    patents.main(str(tmp_path / "my patents"), str(tmp_path), str(tiny_model), **settings)
    results = json.loads((tmp_path / "my patents" / "results.json").read_text())
    assert results["topics"]["number"] == 90 and "groups of level 1" not in results
    assert len(results["topics"]["BERT"][0]) == 8  # figures of the best 1, 3 and 5
    assert results["topics"]["logistic regression over TF-IDF"][0][0] == 1.0  # the words tell the topics
    assert "| logistic regression over TF-IDF | 1.000 |" in capsys.readouterr().out
    assert (tmp_path / "my patents" / "classes.csv").read_text().count("\n") == 91


def test_each_topic_is_in_one_group_of_a_level():
    topics = ["wheat", "rice", "soybean", "gold", "earn", "ship"]
    assert patents.groups(topics, 3) == [["wheat", "rice"], ["soybean"], ["gold"], ["earn"], ["ship"]]
    assert patents.groups(topics, 1) == [["wheat", "rice", "soybean", "gold"], ["earn"], ["ship"]]


CONLL = "".join(f"{a} B-X\n{b} I-X\n{c} O\n\n" for a in "abc" for b in "def" for c in "gh")


@pytest.mark.slow
def test_domains_score_a_model_before_and_after(tmp_path, tiny_model, command, monkeypatch, capsys):
    monkeypatch.setattr(domains, "run", command)
    (tmp_path / "text.jsonl").write_text(
        "".join(f'{{"answer": "Abc def {n} abc is here. Now abc ghi def."}}\n' for n in range(50))
    )
    (tmp_path / "ner" / "one").mkdir(parents=True)
    for part in ("train", "dev", "test"):
        (tmp_path / "ner" / "one" / f"{part}.txt").write_text(CONLL)
    (tmp_path / "general.txt").write_text("".join(f"Xyz uvw {n}.\nXyz abc.\n\n" for n in range(50)))
    texts = (str(tmp_path / "text.jsonl"), "answer", str(tmp_path / "general.txt"))
    given = (str(tiny_model), *texts, str(tmp_path / "ner"))
    domains.main(str(tmp_path / "my domains"), *given, steps=1, num_seeds=1, num_words=2)
    results = json.loads((tmp_path / "my domains" / "results.json").read_text())["one"]
    assert all(0 <= results[kind][0] <= 1 for kind in domains.KINDS)
    right, given, both = np.sum(
        domains.counts_of(tmp_path / "my domains" / "one-0-1", tmp_path / "ner/one/test.txt"), 0
    )
    assert results[domains.KINDS[0]][0] == pytest.approx(2 * both / (right + given), abs=1e-6)
    assert "abc\n" in (tmp_path / "my domains" / "with_words.txt").read_text()
    assert "with new words, minus after the domain's text |" in capsys.readouterr().out
    (tmp_path / "ner" / "one" / "test.txt").write_text("not read")
    given = (str(tiny_model), *texts, str(tmp_path / "ner"))
    domains.main(str(tmp_path / "chosen"), *given, steps=1, num_seeds=1, num_words=2, part="validation")
    results = json.loads((tmp_path / "chosen" / "results.json").read_text())["one"]
    assert all(0 <= results[kind][0] <= 1 for kind in domains.KINDS)


def test_entities_are_counted_and_their_f1_has_an_interval_over_sentences():
    assert domains.spans(["B-X", "I-X", "B-X", "O", "I-Y", "I-X"]) == {
        ("X", 0, 2),
        ("X", 2, 3),
        ("Y", 4, 5),
        ("X", 5, 6),
    }
    right, wrong = [[[1, 1, 1]] * 8], [[[1, 1, 0]] * 8]
    assert domains.over_sentences(right, wrong).tolist() == [1.0, 1.0]
    low, high = domains.over_sentences([right[0][:4] + wrong[0][:4]], wrong)
    assert 0 <= low < 0.5 < high <= 1


@pytest.mark.slow
def test_one_model_of_two_languages_tags_a_third_file(tmp_path, command, monkeypatch, capsys):
    monkeypatch.setattr(multilingual, "run", command)
    kinds = {multilingual.UNTRAINED: 1.0, "English only": None, "both, exponent 0.5": 0.5}
    monkeypatch.setattr(multilingual, "KINDS", kinds)
    for name, words in (("en", "the cat sat on a mat"), ("zh", "猫 在 垫子 上")):
        lines = [f"{words} {number}.\n{words[::-1]} {number}." for number in range(200)]
        (tmp_path / f"{name}.txt").write_text("\n\n".join(lines), encoding="utf-8")
    tree = "".join(f"{n}\t{word}\t_\tNOUN\t_\t_\t0\troot\t_\t_\n" for n, word in enumerate("a cat 猫".split(), 1))
    for name in ("en_ewt-ud-train", "en_ewt-ud-dev", "en_ewt-ud-test", "zh"):
        (tmp_path / f"{name}.conllu").write_text(f"{tree}\n" * 8 + tree.replace("NOUN", "VERB") + "\n")
    articles = {"data": [{"paragraphs": [{"context": f"the cat {number}"} for number in range(3)]}]}
    (tmp_path / "x.json").write_text(json.dumps(articles))
    text = [str(tmp_path / f"{name}.txt") for name in ("en", "zh")]
    parallel = [str(tmp_path / "x.json")] * 2
    given = (str(tmp_path / "my languages"), *text, str(tmp_path), [str(tmp_path / "zh.conllu")], parallel)
    multilingual.main(*given, steps=1, num_seeds=1, size="tiny")
    results = json.loads((tmp_path / "my languages" / "results.json").read_text())
    assert results["agreement"]["both, exponent 0.5"] == [[[1.0]] * 3]  # the same file twice
    assert results["columns"][1] == "en_ewt-ud-test.conllu, words with Chinese characters"
    printed = capsys.readouterr().out
    assert "| the most frequent tag of these words | | 0.889 | 0.889 | 0.889 | 0.889 |" in printed
    assert "| chance | 0.333 | 0.333 | 0.333 |" in printed
    assert "| shared pieces, without a model | 1.000 | 1.000 | 1.000 |" in printed
    share = float(printed.split("| both, exponent 0.5 | ")[1].split(" |")[0])
    assert 0.3 < share < 0.5
    assert "| both, exponent 0.5, minus English only | | " in printed and "; over paragraphs " in printed
    given = (*given[:4], [str(tmp_path / "en_ewt-ud-dev.conllu")], parallel)  # the kept answers are of zh.conllu
    with pytest.raises(SystemExit, match="zh.conllu.*give another --output_dir"):
        multilingual.main(*given, steps=1, num_seeds=1, size="tiny")


def articles(titles):
    """Articles in wikiextractor's layout. Each mentions the next two titles."""
    pairs = [(title, titles[(number + step) % len(titles)]) for number, title in enumerate(titles) for step in (1, 2)]
    return "".join(
        f'<doc id="1" url="" title="{title}">\n{title}\n\n'
        + "".join(f"a {b}。\n" for a, b in pairs if a == title)
        + "</doc>\n"
        for title in titles
    )


@pytest.mark.slow
def test_maskings_of_chinese_are_compared(tmp_path, command, monkeypatch, capsys):
    monkeypatch.setattr(ernie_masking, "run", command)
    (tmp_path / "wiki").write_text(articles([a + b for a in "甲乙丙丁戊" for b in "天地山水"]) * 6, encoding="utf-8")
    (tmp_path / "words").write_text("天地\n山水\n", encoding="utf-8")
    for part in ("train", "dev", "test"):
        first = {"train": "天地", "dev": "山水", "test": "甲乙"}[part]
        table = "label\ttext_a\n" + "".join(f"{n % 2}\t{first[n % 2]}{'丙丁戊天地水'[n // 2]}\n" for n in range(12))
        table += "1\t天丙\n" * (part == "dev")  # this text is in train, too
        (tmp_path / f"{part}.tsv").write_text(table, encoding="utf-8")
        (tmp_path / f"{part}.txt").write_text(
            CONLL.translate(str.maketrans("abcdefgh", "天地山水甲乙丙丁")), encoding="utf-8"
        )
    given = (str(tmp_path / "my maskings"), str(tmp_path / "wiki"), str(tmp_path), str(tmp_path))
    words_file = str(tmp_path / "words")
    ernie_masking.main(*given, words_file, steps=1, num_seeds=1, num_mentions=20, size="tiny")
    results = json.loads((tmp_path / "my maskings" / "results.json").read_text())
    assert {"sentiment accuracy", "entity F1", "table"} < set(results)
    assert (tmp_path / "my maskings" / "sentiment" / "test.tsv").read_text().count("\n") == 13
    assert set((tmp_path / "my maskings" / "units-2.txt").read_text().split()) >= {"天地", "甲天"}
    assert "| words and entities | " in capsys.readouterr().out


def test_hidden_titles_are_units_of_the_text_and_none_counts_often():
    titles, words = {"甲乙", "丙丁", "戊己"}, {"地甲"}
    training = [("", "甲乙丙丁")] * 3 + [("", "戊己")] * 2
    held_out = [("丙丁", "天甲乙\n丙丁天"), ("", "天丙丁天地甲乙"), ("", "天戊己天"), ("", "甲乙甲乙")]
    drawn = hidden_titles.drawn_mentions(held_out + [("", "丙丁山")] * 9, training, titles, words, most=20)
    # 丙丁 is the title of article 0. In article 1, 地甲 is a word, so 甲乙 is no unit there. 戊己 is in two articles of
    # training. In article 3, the text around has 甲乙 again.
    expected = [(0, "天", "甲乙", ""), (1, "天", "丙丁", "天地甲乙"), *((n, "", "丙丁", "山") for n in (4, 5, 6, 7))]
    assert sorted(drawn) == expected


@pytest.mark.slow
def test_entities_stand_in_the_text(tmp_path, command, monkeypatch, capsys):
    monkeypatch.setattr(ernie_entities, "run", command)
    monkeypatch.setattr(linked_text, "run", command)
    names = [f"{a}{b} Town" for a in "ABCDE" for b in "aeiou"]
    text = articles(names).replace("\na ", "\nEu Town or ").replace("。", " and a b c e i town $ # .")
    (tmp_path / "wiki").write_text(text * 8)
    given = (str(tmp_path / "my entities"), str(tmp_path / "wiki"), write_semeval(tmp_path / "semeval"))
    ernie_entities.main(*given, steps=1, num_seeds=1, num_mentions=5, size="tiny")
    results = json.loads((tmp_path / "my entities" / "results.json").read_text())
    assert set(results) == {*ernie_entities.KINDS, "most frequent", "table"}
    assert "<Aa_Town>" in (tmp_path / "my entities" / "with.vocab").read_text().split()
    assert "<" not in (tmp_path / "my entities" / "without.txt").read_text()
    config = json.loads((tmp_path / "my entities" / "model-2-1" / "config.json").read_text())
    assert config["token_vectors"] == "given"


def test_mentions_are_whole_names_and_their_graph_has_no_own_title():
    assert mentions("In New York City or York", {"York", "New York"}) == [(20, 24, "York")]
    articles = [("York", ["York and Leeds in May"]), ("Leeds", ["Leeds"]), ("Hull", ["York or Leeds at War or war"])]
    entities, edges = graph(articles, least=1)
    assert entities == ["Leeds", "York"] and edges.tolist() == [[0, 0], [2, 0], [2, 1]]


def test_a_share_of_the_mentions_has_a_symbol(tmp_path):
    names = [f"{a}{b}" for a in "ABCDE" for b in "aeiou"]
    (tmp_path / "pieces.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "aa", "ae", "or"]))
    writer = linked_text.Writer(str(tmp_path), [], names)
    ((written, is_mention),) = writer.symbols(["Aa or Ae"])
    assert written == ["aa", "<Aa>", "or", "ae", "<Ae>"] and is_mention == [True, True, False, True, True]
    ((own,), (other,)) = writer.of_articles([("Aa", ["Aa or Ae"]), ("Ae", ["Aa or Ae"])])
    assert own[0] == ["aa", "or", "ae", "<Ae>"] and other[0] == ["aa", "<Aa>", "or", "ae"]
    count = sum("<Aa>" in symbols for symbols, _ in writer.symbols(["Aa"] * 200, share=0.5))
    assert 70 < count < 130


def test_a_hidden_mention_does_not_stand_again_beside_it():
    class Written:
        def of_articles(self, articles):
            yield from ([zip(*row, strict=True) for row in lines] for _, lines in articles)

    def row(*symbols):
        return [(symbol, symbol in ("york", "<York>", "hull", "<Hull>")) for symbol in symbols]

    again, alone = row("in", "york", "<York>", "or", "york", "<York>"), row("to", "york", "<York>", "yorker")
    # The row around the second mention of this line begins with the symbol of the first one.
    cut = row("york", "<York>", *["to"] * 63, "york", "<York>", "at", "hull", "<Hull>", "yorker")
    held_out = [("a", [again, alone, row("to", "york", "<York>", "by", "hull", "<Hull>", "yorker")])]
    drawn = ernie_entities.drawn_mentions([("b", [cut])], Written(), most=2)
    assert [symbols[places[0]] for _, symbols, places in drawn] == ["hull"]
    drawn = ernie_entities.drawn_mentions(held_out, Written(), most=2)
    assert sorted((number, list(places), symbols[3]) for number, symbols, places in drawn) == [
        (0, [1, 2], "by"),
        (0, [4, 5], "by"),
    ]


def test_transe_brings_entities_of_one_article_near():
    edges = np.array([(number, 2 * place + number % 2) for number in range(40) for place in range(5)])
    vectors, relation = transe(edges, 10, size=8, epochs=100, seed=1)  # even articles mention 0, 2, 4, 6 and 8
    assert nearer_share(vectors, edges, edges) > 0.7
    untrained, start = transe(edges, 10, size=8, epochs=0, seed=1)
    assert nearer_share(untrained, edges, edges) < 0.6
    assert relation @ start < 0.99 and np.linalg.norm(relation) <= 1.001  # the relation turns, and does not grow
