"""The commands, one script per verb: python -m keras_bert_app.cli.VERB --flag=value."""
