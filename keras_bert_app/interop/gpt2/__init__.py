"""Reads and writes the GPT-2 model directories of Hugging Face transformers."""
