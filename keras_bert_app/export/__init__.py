"""Exports trained models to SavedModels that take raw text, and loads these exports."""
