"""SavedModels of rerankers. They score documents for queries."""

import tensorflow as tf

from keras_bert_app.export import rows
from keras_bert_app.export.specs import about_run, checked_ids, ids_specs, takes_rows, text_spec, variables
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.tasks import ranking_objective

_TEXTS = {
    "query": ["Who wrote the book?", "Who wrote the book?"],
    "document": ["The book was written by Mary Shelley.", "The library opens at nine."],
}


class RerankModule(tf.Module):
    """Signatures that score pairs of a query and a document, as raw texts or as rows of ids.

    Args:
        finetuned: tasks.scoring.FinetunedRun. The run that answers.
        execution: Execution. The way to trace the signature over ids. LiteRT needs a value other than the default.
    """

    def __init__(self, finetuned, execution: Execution = PLAIN):
        super().__init__(name="rerank")
        self.model_variables = variables(finetuned.model)
        self.about = about_run(finetuned, {"serving_default": _TEXTS})
        model, tokenizer, max_seq_length = finetuned.model, finetuned.tokenizer, finetuned.run.max_seq_length

        def scores(encoded, execution):
            logits = model(encoded, execution=execution)["logits"][:, 0]
            return ranking_objective.answers(logits, model.head, finetuned.run.ranking_loss)

        @tf.function(input_signature=[text_spec("query"), text_spec("document")], autograph=False)
        def serve(query, document):
            pieces = tokenizer.tokenize(query), tokenizer.tokenize(document)
            encoded, truncated = rows.of_pairs(tokenizer, *pieces, max_seq_length)
            return {"scores": scores(encoded, PLAIN), "truncated": truncated}

        @takes_rows(ids_specs(model.config))
        def ids(*inputs):
            return {"scores": scores(checked_ids(model.config, inputs, execution), execution)}

        self.exported = {"serving_default": serve, "ids": ids}
