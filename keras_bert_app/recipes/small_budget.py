"""A model in one hour on one machine (Izsak et al. 2021; Geiping and Goldstein 2023).

    python -m keras_bert_app.cli.pretrain --recipe=small_budget --corpus_dir=CORPUS --vocab_file=VOCAB --workdir=RUN

The papers are "How to Train BERT with an Academic Budget" and "Cramming". Warm-up and decay follow --train_minutes.
The recipe has no next-sentence task, little padding (full sentences) and no dropout, but an LSTM keeps
the dropout of its configuration. It predicts a quarter of the tokens, and trains with Muon at a high learning rate.
Position embeddings start as sines. In the first fifth of the run, rows have 32 and then 64 tokens. In the first 6 %,
the learning rate rises. Both are shares of --train_minutes. The learning rate and the wide initial weights were chosen
for narrow models (tiny, mini). A small learned hardly anything with them. With --learning_rate=1e-3
--initializer_range=0.04 its held-out accuracy was 0.19 after an hour of one core (docs/results/vectors.md). Base has
not been trained with the recipe. For base, give the values of BERT: --learning_rate=1e-4 --initializer_range=0.02.
Cost: --train_minutes, or --num_train_steps instead. Expected result with --config=tiny after ten minutes on one CPU
core, in bfloat16, three seeds: held-out MLM accuracy 0.272 to 0.302, unigram baseline 0.047. On a slower core in
float32, one seed reached 0.209 (docs/results/pretraining.md).
"""

CONFIG = "mini"
MODEL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.06}
RUN = {
    "train_minutes": 60.0,
    "num_train_steps": 1_000_000,
    "warmup_share": 0.06,
    "sentence_objective": "none",
    "masked_lm_prob": 0.25,
    "short_seq_prob": 0.0,
    "global_batch_size": 32,
    "length_ramp_share": 0.2,
    "position_initializer": "sinusoidal",
    "optimizer": "muon",
    "learning_rate": 3e-3,
    "adam_beta_2": 0.98,
    "eval_steps": 2_000,
    "save_checkpoints_steps": 500,
}
