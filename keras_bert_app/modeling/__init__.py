"""BERT's encoder and pre-training heads, written with keras.ops.

The files here use these dimensions: B rows, S positions, H hidden size, N attention heads, D size of a head
(H = N x D). I is the intermediate size, P the predictions per row, and V the vocabulary entries.
"""
