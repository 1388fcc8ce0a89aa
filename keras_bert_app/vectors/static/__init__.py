"""Static word vectors: one vector for each word, in files and in memory. The modules need numpy only."""
