"""One thin absl script per verb: python -m keras_bert_app.cli.VERB --flag=value."""
