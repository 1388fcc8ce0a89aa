"""Every recipe names its command and its cost, and fits its model."""

import pytest

from keras_bert_app import recipes
from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError


@pytest.mark.parametrize("name", recipes.recipe_names())
def test_a_recipe_names_its_command_and_cost_and_fits_its_model(name):
    recipe = recipes.load_recipe(name)
    assert f"--recipe={name} " in recipe.__doc__ and "Cost:" in recipe.__doc__
    given = {"lexicon_file": "words.txt"} if recipe.RUN.get("masking") == "lexicon" else {}
    run = PretrainingConfig(**recipe.RUN, **given).resolved()
    assert run.checked_against(BertConfig.of_size(recipe.CONFIG, **recipe.MODEL)) is run
    assert run.num_warmup_steps < run.num_train_steps


def test_an_lstm_keeps_its_dropout_in_the_recipe_without_dropout():
    recipe, awd = recipes.load_recipe("small_budget"), BertConfig.of_size("awd_lstm")
    changed = awd.replace(**recipes.model_values(recipe, awd.architecture))
    assert (changed.hidden_dropout_prob, changed.input_dropout_prob) == (0.2, 0.65)  # as in the paper
    assert recipes.model_values(recipe, "gpt") == recipe.MODEL


def test_given_steps_replace_the_shares_in_the_recipe_for_few_minutes():
    recipe = recipes.load_recipe("small_budget")
    assert not {"num_warmup_steps", "length_ramp_steps"} & recipe.RUN.keys()
    given = {"length_ramp_steps": 300, "train_minutes": 25.0}
    values = recipes.run_values(recipe, given)
    assert "length_ramp_share" not in values and values["warmup_share"] == recipe.RUN["warmup_share"]
    assert PretrainingConfig(**values).resolved().length_ramp_steps == 300
    # A run that an earlier recipe began keeps its ramp and its warm-up.
    assert not {"length_ramp_share", "warmup_share"} & recipes.run_values(recipe, {}, is_resumed=True).keys()


def test_a_given_number_of_steps_replaces_the_time_of_a_recipe():
    recipe = recipes.load_recipe("small_budget")
    run = PretrainingConfig(**recipes.run_values(recipe, {"num_train_steps": 500})).resolved()
    assert (run.num_train_steps, run.train_minutes, run.warmup_share) == (500, 0.0, recipe.RUN["warmup_share"])
    run = PretrainingConfig(**recipes.run_values(recipe, {"num_train_steps": 500, "train_minutes": 5.0})).resolved()
    assert run.train_minutes == 5.0


def test_steps_and_a_share_for_the_same_setting_are_refused():
    for steps, share in PretrainingConfig.SHARES.items():
        with pytest.raises(UserError, match=f"--{steps}=80 and --{share}=0.2 say the same in two ways; give one"):
            PretrainingConfig(**{steps: 80, share: 0.2})


def test_the_nearest_recipe_is_named():
    with pytest.raises(UserError, match="did you mean 'domain'"):
        recipes.load_recipe("domian")
