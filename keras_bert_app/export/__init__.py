"""Export of trained models to SavedModels that take raw text, and loading of such exports."""
