"""TensorFlow Model Garden's training step, for training_step.

reference_answers runs this script in an environment with benchmarks/requirements-model-garden.txt. The step is that of
Model Garden's trainer: BertPretrainerV2 with the loss of MaskedLMTask in a tf.function, and AdamWeightDecay ("adamw" of
its optimizer factory). This optimizer also clips the gradients.
"""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import step_answers
import tensorflow as tf
import tf_keras
from official.legacy.bert import configs
from official.modeling import tf_utils
from official.modeling.optimization import legacy_adamw
from official.nlp.modeling import layers, models, networks

PACKAGES = ("tf-models-official", "tensorflow", "tf-keras")
_NOT_DECAYED = ["LayerNorm", "layer_norm", "bias"]  # from official.nlp.optimization


def make(request):
    tf_keras.mixed_precision.set_global_policy(
        {"float32": "float32", "bfloat16": "mixed_bfloat16"}[request["precision"]]
    )
    batch = {name: tf.constant(values) for name, values in np.load(request["batch_file"]).items()}
    config = configs.BertConfig.from_json_file(os.path.join(request["directory"], "bert_config.json"))
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = request["dropout"]
    model = build(config, batch)
    tf.train.Checkpoint(model=model).restore(
        os.path.join(request["directory"], "bert_model.ckpt")
    ).assert_existing_objects_matched()
    optimizer = legacy_adamw.AdamWeightDecay(
        request["learning_rate"],
        beta_2=request["beta_2"],
        epsilon=request["epsilon"],
        weight_decay_rate=request["weight_decay"],
        gradient_clip_norm=1.0,
        exclude_from_weight_decay=_NOT_DECAYED,
    )
    # The head has its own pooler, so the encoder's pooler is not in the loss.
    variables = [variable for variable in model.trainable_variables if "pooler_transform" not in variable.name]

    @tf.function(jit_compile=request["compiled"] == "step")
    def gradients():
        with tf.GradientTape() as tape:
            outputs = model(batch, training=True)
            pairs = (
                (batch["masked_lm_ids"], outputs["mlm_logits"]),
                (batch["next_sentence_labels"], outputs["next_sentence"]),
            )
            loss = sum(
                tf.reduce_mean(
                    tf_keras.losses.sparse_categorical_crossentropy(
                        labels, tf.cast(logits, tf.float32), from_logits=True
                    )
                )
                for labels, logits in pairs
            )
        return loss, [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, variables)]

    @tf.function
    def step():
        loss, values = gradients()
        optimizer.apply_gradients(zip(values, variables, strict=True))
        return loss

    return lambda: float(step()), model.count_params()


def build(config, batch):
    """Builds the pretrainer and calls it once, which makes its variables."""
    activation = tf_utils.get_activation(config.hidden_act)
    encoder = networks.BertEncoder(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        activation=activation,
        dropout_rate=config.hidden_dropout_prob,
        attention_dropout_rate=config.attention_probs_dropout_prob,
        max_sequence_length=config.max_position_embeddings,
        type_vocab_size=config.type_vocab_size,
        dict_outputs=True,
    )
    head = layers.ClassificationHead(inner_dim=config.hidden_size, num_classes=2, name="next_sentence")
    model = models.BertPretrainerV2(encoder, mlm_activation=activation, classification_heads=[head])
    model(batch)
    return model


answer = step_answers.answers_of_steps(make)
