"""Reads and writes the model directories of Hugging Face transformers."""
