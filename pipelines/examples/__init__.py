"""Pre-training examples: segment pairs, packing, masking and the dataset of batches."""
