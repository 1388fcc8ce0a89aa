"""Estimates of the parameters, FLOP, memory and time of a pre-training run.

The package does not load TensorFlow.

Dimensions are those of keras_bert_app.modeling: B rows, S positions, H hidden size, N attention heads, D head size,
W = N x D of one layer, I intermediate size, P predictions per row, V vocabulary entries, L layers.
"""
