"""Golden values of an encoder-decoder from Hugging Face transformers.

Reference: transformers 5.23.0 (EncoderDecoderModel of two BERTs, eager attention) on torch 2.13.0, CPU. See README.md.

    python tests/golden/generate_text_to_text.py

Writes text_to_text.npz with arrays under these keys:
  metadata                 a JSON string: versions, seed, configuration
  state_dict/NAME          float32, every entry of model.state_dict()
  inputs/...               int32, this project's batch names
  outputs/logits           [B, T, V], of the piece after each piece of the target
  outputs/attention_I      [B, N, T, S], layer I's attention of the decoder to the encoder
  beams/ids                [B, K, T], the best texts of generate with K beams and no length penalty, best first
  beams/scores             [B, K], the logarithms of their probabilities

The outputs come from a float64 run on the float32 weights, rounded to float32.
"""

import json
import os

import numpy as np
import torch
import transformers

OUTPUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "text_to_text.npz")
SEED = 20170612
VERSIONS = {"torch": "2.13.0", "transformers": "5.23.0"}
# B batch, S source, T target, K beams. All sizes differ, so that a comparison notices swapped axes.
BATCH_SIZE, SOURCE_LENGTH, TARGET_LENGTH, NUM_BEAMS, BEAM_LENGTH = 5, 11, 7, 3, 9
CONFIG = dict(
    vocab_size=29,
    hidden_size=12,
    num_attention_heads=2,
    intermediate_size=17,
    num_hidden_layers=2,
    max_position_embeddings=13,
    type_vocab_size=2,
    layer_norm_eps=1e-12,
)
BEGIN, END = 2, 3


def check_versions():
    """Raises SystemExit unless the reference has the versions in VERSIONS."""
    installed = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}
    if installed != VERSIONS:
        raise SystemExit(f"reference versions are {installed}, expected {VERSIONS}")


def make_model():
    """Returns the model with random weights. Their deviation of 0.3 makes an error in any part visible."""
    settings = dict(CONFIG, attn_implementation="eager")
    encoder = transformers.BertConfig(**settings)
    decoder = transformers.BertConfig(**settings, is_decoder=True, add_cross_attention=True)
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    model = transformers.EncoderDecoderModel(config=config).eval()
    for part in (model.encoder, model.decoder):
        part.set_attn_implementation("eager")  # only "eager" returns probabilities
    for part in (model.config, model.generation_config):
        part.decoder_start_token_id, part.eos_token_id, part.pad_token_id = BEGIN, END, 0
    torch.manual_seed(SEED)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape)
            parameter.copy_(1.0 + 0.2 * noise if name.endswith("LayerNorm.weight") else 0.3 * noise)
        model.decoder.cls.predictions.bias[END] += 3.0  # texts of several lengths
    return model


def make_inputs():
    """Returns the batch as int32 arrays. Rows and targets have different lengths."""
    generator = np.random.default_rng(SEED)
    mask = np.arange(SOURCE_LENGTH) < generator.integers(3, SOURCE_LENGTH + 1, (BATCH_SIZE, 1))
    ids = generator.integers(5, CONFIG["vocab_size"], (BATCH_SIZE, SOURCE_LENGTH))
    target_mask = np.arange(TARGET_LENGTH + 1) < generator.integers(3, TARGET_LENGTH + 2, (BATCH_SIZE, 1))
    target = generator.integers(5, CONFIG["vocab_size"], (BATCH_SIZE, TARGET_LENGTH + 1))
    target[:, 0] = BEGIN
    batch = {
        "input_word_ids": np.where(mask, ids, 0),
        "input_mask": mask,
        "input_type_ids": mask & (np.arange(SOURCE_LENGTH) >= 4),
        "target_word_ids": np.where(target_mask, target, 0),
    }
    return {name: values.astype(np.int32) for name, values in batch.items()}


def run(model, inputs):
    """Returns the outputs as a dict of arrays."""
    tensors = {name: torch.from_numpy(values).long() for name, values in inputs.items()}
    target = tensors["target_word_ids"][:, :-1]
    source = {"input_ids": tensors["input_word_ids"], "attention_mask": tensors["input_mask"]}
    with torch.no_grad():
        states = model.encoder(**source, token_type_ids=tensors["input_type_ids"])
        result = model(
            attention_mask=tensors["input_mask"],
            encoder_outputs=states,
            decoder_input_ids=target,
            decoder_attention_mask=(target > 0).long(),
            output_attentions=True,
        )
        beams = model.generate(
            encoder_outputs=states,
            attention_mask=tensors["input_mask"],
            num_beams=NUM_BEAMS,
            num_return_sequences=NUM_BEAMS,
            max_new_tokens=BEAM_LENGTH,
            length_penalty=0.0,
            early_stopping="never",
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
        )
    ids = np.zeros((BATCH_SIZE * NUM_BEAMS, BEAM_LENGTH), np.int32)
    ids[:, : beams.sequences.shape[1] - 1] = beams.sequences[:, 1:].numpy()
    ids[np.cumsum(ids == END, axis=1) - (ids == END) > 0] = 0  # zeros after END, whatever generate puts there
    outputs = {
        "outputs/logits": result.logits.numpy(),
        "beams/ids": ids.reshape(BATCH_SIZE, NUM_BEAMS, BEAM_LENGTH),
        "beams/scores": beams.sequences_scores.numpy().reshape(BATCH_SIZE, NUM_BEAMS),
    }
    for index, probabilities in enumerate(result.cross_attentions):
        outputs[f"outputs/attention_{index}"] = probabilities.numpy()
    return outputs


def main():
    check_versions()
    model, inputs = make_model(), make_inputs()
    state_dict = {name: values.numpy().copy() for name, values in model.state_dict().items()}
    outputs = run(model.double(), inputs)
    metadata = {"reference": "transformers.EncoderDecoderModel", "versions": VERSIONS, "seed": SEED, "config": CONFIG}
    arrays = {"metadata": np.array(json.dumps(metadata))}
    arrays.update({f"state_dict/{name}": values for name, values in state_dict.items()})
    arrays.update({f"inputs/{name}": values for name, values in inputs.items()})
    arrays.update(
        {name: values if values.dtype == np.int32 else values.astype(np.float32) for name, values in outputs.items()}
    )
    np.savez_compressed(OUTPUT, **arrays)
    print(f"{OUTPUT} {os.path.getsize(OUTPUT)} bytes")


if __name__ == "__main__":
    main()
