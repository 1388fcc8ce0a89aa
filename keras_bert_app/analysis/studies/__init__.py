"""One module for each analysis that `analyze --what=NAME` runs."""
