"""Trained models to SavedModels that take raw text, and back."""
