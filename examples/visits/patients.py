"""Simulated patients whose diseases follow a tree of codes."""

import sys

import numpy as np


def simulated(parents, num_patients, num_blocks, draw):
    """Patients whose diseases follow the tree: each is a list of visits (age, codes without order)."""
    inner = set(parents.values())
    families = {}  # block -> category -> codes
    for code, category in parents.items():
        if code not in inner:
            block = parents.get(category, category)
            families.setdefault(block, {}).setdefault(category, []).append(code)
    large = sorted(block for block in families if len(families[block]) > 1)
    if len(large) < num_blocks:
        sys.exit(
            f"the tree has {len(large)} blocks of two categories or more, expected {num_blocks}; give a larger one"
        )
    blocks = draw.sample(large, num_blocks)
    next_block = dict(zip(blocks, draw.sample(blocks, len(blocks)), strict=True))  # a disease leads to another one
    usual_age = {block: draw.uniform(20, 90) for block in blocks}
    return [_patient(families, blocks, next_block, usual_age, draw.randint(20, 80), draw) for _ in range(num_patients)]


def _patient(families, blocks, next_block, usual_age, age, draw):
    weights = [np.exp(-(((age - usual_age[block]) / 15) ** 2) / 2) / (1 + i / 10) for i, block in enumerate(blocks)]
    active = draw.choices(blocks, weights, k=draw.randint(1, 2))
    own = {}  # block -> the category of this patient
    visits = []
    for _ in range(draw.randint(3, 8)):
        codes = set()
        for block in active:
            category = own.setdefault(block, draw.choice(sorted(families[block])))
            if draw.random() < 0.2:
                category = draw.choice(sorted(families[block]))
            codes.update(_zipf(families[block][category], draw) for _ in range(draw.randint(1, 2)))
        if draw.random() < 0.1:
            codes.add(_zipf(draw.choice(sorted(families[draw.choice(blocks)].values())), draw))
        visits.append((age, sorted(sorted(codes), key=lambda code: draw.random())))
        age += draw.randint(0, 2)
        if draw.random() < 0.25:
            active = [*active[-2:], next_block[active[-1]]]
    return visits


def _zipf(codes, draw):
    return draw.choices(codes, [1 / (1 + rank) for rank in range(len(codes))])[0]
