"""Fine-tuning by the functions that `finetune` runs, an epoch or a pass over the dev examples at a time, for benchmarks of both."""

import dataclasses

# As many epochs and evaluations the lengths of batches are fitted for: all have compiled before a clock starts.
_EPOCHS = 40


class Way:
    """One way of batching, its model and compiled functions."""

    def __init__(self, weights, run, tokenizer):
        from keras_bert_app.interop import load
        from keras_bert_app.modeling.task_model import BertTaskModel
        from keras_bert_app.tasks import batches, lengths, scoring
        from keras_bert_app.tasks.labelled_data import load_data
        from keras_bert_app.tasks.transfer import trained_variables
        from keras_bert_app.training import forward, steps, strategies
        from keras_bert_app.training.optimizers import choice

        strategy = strategies.make_strategy(run.strategy)
        self.data = load_data(run, tokenizer)
        steps_per_epoch = batches.steps_per_epoch(self.data.train, run.global_batch_size)
        self.run = run = run.resolved(steps_per_epoch)
        self.of_many = dataclasses.replace(run, num_train_steps=_EPOCHS * steps_per_epoch)
        task = self.data.task
        with strategy.scope():
            self.model = BertTaskModel(
                weights.config,
                task.family.make_head(task, run, self.data.labels),
                dtype=strategies.KERAS_POLICIES[run.precision],
            )
            load.assign(self.model, weights)
            optimizer = choice.make_optimizer(run, trained_variables(self.model, run), weights.config.num_hidden_layers)
        self.train_call = steps.make_train_call(
            strategy,
            self.model,
            optimizer,
            run,
            task.family.make_objective(task, run, self.model.head),
            run.length_buckets,
        )
        self.length_cost = lengths.cost(run.jit_compile, weights.config)
        compiled, self.shapes = scoring.compilation(strategy, run, weights.config, self.data.dev, _EPOCHS)
        self.predict_call = forward.make_prediction_call(strategy, self.model, compiled)
        slots = [slot for of_kind in optimizer.slots.values() for slot in of_kind.values()]
        self.variables = [*(variable.value for variable in self.model.variables), *slots]
        self.initial = [variable.numpy() for variable in self.variables]
        self.num_steps = 0  # taken; the optimizer's correction of its first steps goes by it

    def reset(self, number):
        """As before the first step. Args: number: of the round, whose order of the examples is its own."""
        for variable, value in zip(self.variables, self.initial):
            variable.assign(value)
        self.num_steps = 0
        self.take_order(number)

    def take_order(self, number):
        """Has the next epoch's examples in the order of the epoch of that number."""
        self.epoch = number

    def training(self):
        """One epoch, which goes on from the one before if there was no reset; what it computed stands in places (rows x length)."""
        import tensorflow as tf

        from keras_bert_app.tasks import batches

        self.places = 0
        for batch, (epoch, _) in batches.training_batches(
            self.data.train, self.of_many, (self.epoch, 0), self.length_cost
        ):
            self.train_call({name: values[tf.newaxis] for name, values in batch.items()}, self.num_steps)
            self.num_steps += 1
            self.places += batch["input_word_ids"].shape.num_elements()
            if epoch > self.epoch:
                return

    def prediction(self):
        """All dev examples; their logits stand in answers."""
        from keras_bert_app.tasks import predicting

        self.answers = predicting.unit_logits(
            self.predict_call,
            self.model,
            self.data.dev,
            self.run,
            self.run.global_batch_size,
            times=_EPOCHS,
            **self.shapes,
        )

    def scores(self):
        """dict of the task's figures for answers."""
        task, examples, labels = self.data.task, self.data.dev_examples, self.data.labels
        found = task.family.decode(task, examples, self.data.dev, self.answers, self.run, labels)
        return {name: float(value) for name, value in task.family.score(task, examples, found, labels).items()}
