"""Families of tasks: one module for each kind of answer.

A family is a module with these names:
    READS: tuple of str. The fields of task.SELECTIVE that all tasks of the family read.
    label_names(task, examples, run): The names of the model's outputs in order; () for outputs without names.
    classes(task, example): The names of an example's classes, so that draws keep the share of each class; () for none.
    sources(examples): The source of each example, such as its text. Examples of one source are held out together.
    input_names(examples): The names of the inputs of an exported model.
    featurize(task, examples, tokenizer, run, labels, has_labels=True): The Features of examples.
    texts(examples): All texts, for masked LM on them.
    make_head(task, run, labels, tokenizer): The modeling.task_models.TaskHead of a run.
    make_objective(task, run, head): The training objective, one of tasks.objectives.
    make_answers(run): function (model, batch, execution) -> the model's answers to a batch, such as its logits.
    decode(task, examples, features, logits, run, labels): The predictions from these answers, a dict for each example.
    score(task, examples, predictions, labels): dict metric -> score.
    signatures(examples): dict metric -> how the metric is computed, for metrics with several variants.
    measure(task, examples, predictions, labels): The first metric as tasks.intervals.Measure, for resamples.
    baseline(task, train_examples, examples, labels): (description, predictions) of a baseline without a model.
    answers(task, examples, predictions, labels): (right answers, given answers, names) for the pictures.
    pictures(model, features, logits, title): dict file name -> PNG file, for pictures that only this family has.
    write_predictions(task, directory, examples, predictions): Writes the files for the task's official scorer.
    mistakes(task, examples, predictions, most): The wrong answers with the highest probabilities, as dicts.
"""
