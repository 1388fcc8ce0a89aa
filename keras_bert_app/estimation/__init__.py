"""What training a configuration costs: parameters, FLOP, memory, time. Arithmetic alone: nothing here loads TensorFlow.

Dimensions are those of keras_bert_app.modeling: B rows, S positions, H hidden size, N attention heads, D size of a
head, W = N x D of one layer, I intermediate size, P predictions a row, V vocabulary entries.
"""
