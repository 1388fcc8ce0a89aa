"""BERT's encoder and pre-training heads, written with keras.ops.

Dimensions used in all files here: B rows, S positions, H hidden size, N attention heads, D size of a head (H = N x D),
I intermediate size, P predictions a row, V vocabulary entries.
"""
