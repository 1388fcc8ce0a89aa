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


def test_the_nearest_recipe_is_named():
    with pytest.raises(UserError, match="did you mean 'domain'"):
        recipes.load_recipe("domian")
