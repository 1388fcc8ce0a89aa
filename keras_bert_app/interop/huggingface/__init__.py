"""Model directories of Hugging Face transformers."""
