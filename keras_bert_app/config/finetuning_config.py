"""FinetuningConfig: the options of a fine-tuning run. The module does not load TensorFlow."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.rerank_options import RerankOptions
from keras_bert_app.config.training_config import TrainingConfig, field
from keras_bert_app.errors import UserError

POOLINGS = ("cls", "mean", "max", "concat")
LAYERS = ("last", "last_four", "scalar_mix")
STATES_AT = ("input", "output", "both")
TAG_LAYERS = ("softmax", "crf")
CONTEXT_VECTORS = ("auto", "none", "random")
UNKNOWN_VECTORS = ("random", "unk", "shape", "characters")
WINDOWED = ("windows", "hierarchical")  # values of --long_documents with several rows for a long text
_MOST_STEPS_UNSAVED = 1000  # save_checkpoints_steps of run_classifier.py in google-research/bert
DOCUMENTS = ("head", "head_tail", *WINDOWED)
# Fields with paths of this machine. A run keeps absolute paths, so that it can be resumed from another folder.
PATHS = ("data_dir", "test_file", "unlabelled_files", "init_vectors", "target_vocab_file")
PATHS_OR_HANDLES = ("init_checkpoint", "teacher")
HEADERS = ("auto", "yes", "no")

# The four letters of a scheme mark an entity's first word, inner words and last word, and an entity of one word.
# Sources: Ramshaw and Marcus 1995; Tjong Kim Sang and Veenstra 1999; for BILOU Ratinov and Roth 2009. BMES is usual for
# Chinese words.
# In IOB1 an entity begins with B only if it directly follows another entity of its type.
SCHEMES = {"IOB2": "BIIB", "IOB1": "IIII", "IOE2": "IIEE", "BIOES": "BIES", "BILOU": "BILU", "BMES": "BMES"}


@dataclasses.dataclass(frozen=True)
class FinetuningConfig(RerankOptions):
    """The options of a fine-tuning run.

    Every field is a flag of the finetune command. Names follow google-research/bert.

    Raises:
        UserError: a value is out of its range. The message names the flag, the value and the range.
    """

    task: str = field("", "Name of the task. --list_tasks prints all names.")
    data_dir: str = field("", "Directory of the task's files; or one file of training examples, with --dev_fraction.")
    dev_fraction: float = field(
        0.0,
        "Share of the training examples that becomes the development examples, for data without a dev file. The "
        "draw is by class and the same for every seed, and examples of one text stay together.",
        minimum=0.0,
        below=1.0,
    )
    test_file: str = field(
        "",
        "Labelled file that is scored once, with the best weights. With this file, all of dev chooses the weights. "
        "Without it, one half of dev chooses the weights, and the run reports the score on the other half.",
    )
    text_columns: tuple = field(
        (),
        "For tasks over tables: the column with the text, or the two columns with the two texts, by name or by number "
        "from 0. For tagging files: the number of the column with the words, from 0.",
    )
    label_column: str = field(
        "label",
        "For tasks over tables: the column with the label, by name or by number from 0. multi_label also takes several "
        "columns of 0 and 1, separated by commas. For tagging files: the number of the column with the tags, from 0.",
    )
    header: str = field(
        "auto",
        "Whether line 1 of a table names its columns. auto: yes, unless all columns are given by number and line 1 of "
        "the training file has a label like those of the other lines.",
        choices=HEADERS,
    )
    tag_scheme: str = field(
        "auto", "Scheme of the entity tags in the answers; auto: that of the training file.", choices=("auto", *SCHEMES)
    )
    language: str = field(
        "",
        "For tasks in several languages (xnli, paws-x): the language that trains the model and chooses the best "
        "weights; by default en. The other languages are only scored. Empty: all languages train and choose.",
    )
    fold: int = field(
        0,
        "Which of the five parts of codah's full_data.tsv, from 0, is the test split. The next part is dev.",
        minimum=0,
        below=5,
    )
    max_seq_length: int = field(128, "Largest number of tokens in a row, with [CLS] and [SEP].", minimum=8)
    length_buckets: bool = field(
        True,
        "Put texts of similar lengths into a batch and pad them to the longest; otherwise pad all rows to "
        "--max_seq_length.",
    )
    long_documents: str = field(
        "head",
        "The part of a text longer than a row that is read: its head; its head and tail (head_tail); or all of it in "
        "windows, whose logits are averaged (windows) or whose vectors go through an LSTM (hierarchical).",
        choices=DOCUMENTS,
    )
    max_windows: int = field(8, "Most windows of a text with --long_documents=windows or hierarchical.", minimum=1)
    doc_stride: int = field(128, "Tokens between the starts of two windows of a long text.", minimum=1)
    max_query_length: int = field(64, "Most tokens of a question.", minimum=1)
    max_answer_length: int = field(30, "Most tokens of an answer.", minimum=1)
    n_best_size: int = field(20, "Number of the best answers that are kept for a question.", minimum=1)
    null_score_diff_threshold: float = field(
        0.0,
        'A question gets no answer if the score of "no answer" exceeds that of the best answer by more than this '
        "number (SQuAD 2.0). 0: a finished run uses its own threshold, tuned on dev.",
    )
    document_context: bool = field(
        False, "Fill the rest of a sentence's row with the words before and after it in its document."
    )
    pooling: str = field(
        "cls",
        "Vector of a text: [CLS] through BERT's pooler (cls); the mean or maximum over its tokens; or "
        "[CLS], maximum and mean side by side (concat; ULMFiT). A GPT's head reads the last token instead of [CLS].",
        choices=POOLINGS,
    )
    layers: str = field(
        "last",
        "Layers that the head reads: the last; the last four side by side; or a learned mix of all (ELMo).",
        choices=LAYERS,
    )
    bilstm_units: int = field(
        0, "Units in each direction of a bidirectional LSTM under the head (TagLM); 0: no LSTM.", minimum=0
    )
    token_vector_size: int = field(
        0,
        "Width of the head's own vectors of pieces (TagLM): a table, beside convolutions over characters. A first "
        "BiLSTM of --bilstm_units reads them, and the BiLSTM under the head reads its outputs beside the encoder's "
        "states. 0: no such vectors.",
        minimum=0,
    )
    states_at: str = field(
        "input",
        "Where the encoder's states enter the BiLSTM under the head: at its input, beside its output, or both (ELMo).",
        choices=STATES_AT,
    )
    mix_layer_norm: bool = field(
        False, "Give the vectors of each layer the mean 0 and the variance 1 before --layers=scalar_mix mixes them."
    )
    mix_rate_factor: float = field(
        1.0,
        "Factor of the learning rate for the shares of --layers=scalar_mix. A short run hardly moves them with 1.",
        minimum=0.0,
        most=1000.0,
    )
    tag_layer: str = field(
        "softmax",
        "Output layer of a tagging task: softmax decides each tag by itself; crf also learns which tags follow each "
        "other, and gives the best sequence of a row (conditional random field).",
        choices=TAG_LAYERS,
    )
    context_vectors: str = field(
        "auto",
        "Vectors that the head reads beside the encoder's states (CoVe). auto: those of the LSTM that a translation "
        "run with --bilstm_units, as --init_checkpoint, has over its encoder; random: those of an LSTM of this size "
        "with random weights; none: no such vectors.",
        choices=CONTEXT_VECTORS,
    )
    classifier_dropout: float = field(0.1, "Dropout under the output layer.", minimum=0.0, below=1.0)
    encoder_dropout: float = field(
        -1.0,
        "Dropout of the encoder's states and attention while it is trained; -1: that of the model.",
        minimum=-1.0,
        below=1.0,
    )
    encoder_layers: int = field(
        -1, "Number of the encoder's lowest layers that are used; 0: its embeddings alone; -1: all layers.", minimum=-1
    )
    init_vectors: str = field(
        "",
        "File of word vectors (GloVe's or word2vec's text format) with which the word embeddings of random weights "
        "begin, or the head's own vectors of --token_vector_size. With --encoder_layers=0 and --bilstm_units the model "
        "is a BiLSTM over word vectors. --freeze_layers=-1 keeps the encoder's vectors as they are.",
    )
    unknown_vectors: str = field(
        "random",
        "Vectors of the pieces that --init_vectors lacks: random ones; one vector for all (unk); the mean of the words "
        "of the same shape, such as Xxxx or dddd (shape); or the mean over their character n-grams (characters).",
        choices=UNKNOWN_VECTORS,
    )
    reinit_layers: int = field(
        0,
        "Number of the highest layers that begin with new random weights; the pooler does too. The highest layers of "
        "--init_checkpoint may be of no use to the task (Zhang et al. 2020).",
        minimum=0,
    )
    freeze_layers: int = field(
        0,
        "Number of the lowest layers that are not trained; the embeddings are not trained either. -1: no layer is "
        "trained, nor the LSTM of --context_vectors, and the encoder has no dropout. 0: all are trained.",
        minimum=-1,
    )
    gradual_unfreezing: int = field(
        0,
        "Steps after which one more layer is trained, from the top down (ULMFiT); 0: all layers from the beginning.",
        minimum=0,
    )
    learning_rate: float = field(5e-5, "Peak learning rate.", minimum=0.0)
    num_train_epochs: float = field(3.0, "Passes over the training examples.", minimum=0.0)
    num_train_steps: int = field(0, "Number of steps, instead of --num_train_epochs; 0: the epochs decide.", minimum=0)
    average_decay: float = field(
        0.0,
        "Decay of a running mean of the weights; 0.99 is a mean over about 100 steps. The mean is scored and kept as "
        "the best weights; training continues with the weights themselves. 0: no mean.",
        minimum=0.0,
        below=1.0,
    )
    average_checkpoints: int = field(
        0,
        "Number of the newest checkpoints whose mean is scored at the end; it is kept if its score is the best "
        "(Vaswani et al. 2017, section 6.1). 0: no mean.",
        minimum=0,
    )
    eval_steps: int = field(0, "Steps between evaluations on the development examples; 0: once an epoch.", minimum=0)
    save_checkpoints_steps: int = field(
        0,
        "Steps between checkpoints; 0: at each evaluation, and every 1,000 steps unless --keep_every_steps is given.",
        minimum=0,
    )
    keep_checkpoints: int = field(1, "How many of the newest checkpoints are kept, besides the best.", minimum=1)
    early_stopping: int = field(
        0, "Number of evaluations without a better score that ends the run; 0: never.", minimum=0
    )
    max_train_examples: int = field(
        0,
        "Most training examples. --seed decides the draw, and each class keeps its share; a reranker gets whole "
        "queries. 0: all.",
        minimum=0,
    )
    swap_pairs: bool = field(
        False, "Train on each pair of texts in both orders, for tasks whose answers do not depend on the order."
    )
    max_eval_examples: int = field(
        0, "Most examples of dev, and of each further dev split and language, from the first one on; 0: all.", minimum=0
    )
    log_steps: int = field(50, "Steps between lines of metrics.jsonl and TensorBoard, at most 10,000.", minimum=1)
    mlm_tuning_steps: int = field(
        0,
        "Steps of masked LM (of the next piece, for a GPT) on the training texts before the task itself (ULMFiT).",
        minimum=0,
    )
    teacher: str = field(
        "",
        "A fine-tuned run of the same task. The new run also learns its answers (distillation). The task must have "
        "classes, label sets or numbers. Several seeds answer together, by the mean of their logits. With "
        "--task=similarity: a run (of several seeds, the best one), or a model in any layout, whose vectors the run "
        "learns (--vector_loss=distill).",
    )
    unlabelled_files: tuple = field(
        (),
        "Files of texts without labels, as predict takes them. The run learns the teacher's answers to them. Texts of "
        "dev and test are refused.",
    )
    distillation_weight: float = field(
        0.5, "Share of the teacher's answers in the loss; the labels have the rest.", minimum=0.0, most=1.0
    )
    distillation_temperature: float = field(
        2.0, "The logits of the teacher and of the run are divided by this number.", minimum=0.01
    )
    consistency_weight: float = field(
        0.0,
        "Weight of the difference of two answers in the loss: each batch goes through the model twice, with different "
        "dropout (R-Drop, Liang et al. 2021). 0: each batch goes through once.",
        minimum=0.0,
    )

    language_model_weight: float = field(
        0.0,
        "Weight of the loss of the next piece beside the loss of the task, for a GPT (Radford et al. 2018, whose "
        "weight is 0.5). 0: the task alone.",
        minimum=0.0,
    )

    KEY = "finetuning"  # the key of these options in config.json
    CHANGEABLE_ON_RESUME = TrainingConfig.CHANGEABLE_ON_RESUME | {
        "num_train_epochs",
        "data_dir",
        "test_file",
        "unlabelled_files",
        "early_stopping",
        "average_checkpoints",
    }
    FOLLOWS_FROM_OTHERS = TrainingConfig.FOLLOWS_FROM_OTHERS | {
        "num_train_steps": 0,
        "eval_steps": 0,
        "save_checkpoints_steps": 0,
        "text_columns": (),
        "header": "auto",
        "tag_scheme": "auto",
        "vector_loss": "auto",
        "similarity_metric": "auto",
        "ranking_loss": "auto",
    }
    ONLY_WITH = RerankOptions.ONLY_WITH | {
        "unknown_vectors": ("init_vectors", ()),
        "token_vector_size": ("bilstm_units", ()),
        "states_at": ("bilstm_units", ()),
        **dict.fromkeys(("mix_layer_norm", "mix_rate_factor"), ("layers", ("scalar_mix",))),
    }

    def __post_init__(self):
        super().__post_init__()
        if not self.num_train_epochs and not self.num_train_steps and not self.train_minutes:
            raise UserError(
                "--num_train_epochs=0: give epochs, or --num_train_steps, or --train_minutes; to score a run without "
                "training, give the command evaluate"
            )
        if self.average_checkpoints == 1 or self.average_checkpoints and self.average_decay:
            raise UserError(
                f"--average_checkpoints={self.average_checkpoints}: expected 2 or more, without --average_decay"
            )
        if self.gradual_unfreezing and self.freeze_layers < 0:
            raise UserError(
                f"--gradual_unfreezing={self.gradual_unfreezing}: with --freeze_layers=-1 no layer is trained; "
                "leave one of them out"
            )
        if -1.0 < self.encoder_dropout < 0.0:
            raise UserError(
                f"--encoder_dropout={self.encoder_dropout}: expected 0 to below 1, or -1 for the model's own"
            )
        if self.states_at == "output" and not self.token_vector_size:
            raise UserError(
                "--states_at=output: the BiLSTM would have no input; give --states_at=both, or --token_vector_size"
            )
        if self.tag_layer == "crf" and self.consistency_weight:
            raise UserError(
                f"--consistency_weight={self.consistency_weight}: compares the probabilities of single tags, which a "
                "conditional random field does not have; leave it out, or give --tag_layer=softmax"
            )
        if self.language_model_weight and (self.consistency_weight or self.freeze_layers < 0):
            other = "--consistency_weight" if self.consistency_weight else "--freeze_layers=-1"
            raise UserError(
                f"--language_model_weight={self.language_model_weight}: does not go together with {other}; leave one "
                "of them out"
            )
        if self.init_vectors and self.mlm_tuning_steps and not self.token_vector_size:
            raise UserError(
                f"--init_vectors={self.init_vectors}: the tuning of --mlm_tuning_steps begins with random vectors; "
                "leave one of them out"
            )
        if self.batch_tokens and not self.length_buckets:
            raise UserError(
                f"--batch_tokens={self.batch_tokens}: needs batches of rows of similar length; leave out "
                "--nolength_buckets"
            )
        if self.mine_negatives and not self.length_buckets:
            raise UserError(
                f"--mine_negatives={self.mine_negatives}: needs calls of one step each; leave out --nolength_buckets"
            )
        if self.long_documents in WINDOWED and self.teacher:
            raise UserError(
                f"--teacher: with --long_documents={self.long_documents} texts have several rows; give "
                "--long_documents=head or head_tail"
            )

    @property
    def has_many_lengths(self) -> bool:
        return self.length_buckets

    def changed_by(self, wanted: Mapping[str, Any]) -> "FinetuningConfig":
        changed = super().changed_by(wanted)
        if changed.num_train_epochs != self.num_train_epochs and not wanted.get("num_train_steps"):
            # num_train_steps follows from the earlier number of epochs. 0 lets the run compute it again.
            changed = dataclasses.replace(changed, num_train_steps=0)
        return changed

    def resolved(self, steps_per_epoch: int) -> "FinetuningConfig":
        """Returns a copy with the values that follow from other options.

        Args:
            steps_per_epoch: steps in one pass over the training examples.
        """
        # If only the clock ends the run, the number of steps matters only for the share of warm-up steps.
        steps = self.num_train_steps or max(1, round((self.num_train_epochs or 1.0) * steps_per_epoch))
        eval_steps = self.eval_steps or (steps_per_epoch if self.train_minutes else min(steps_per_epoch, steps))
        most_unsaved = eval_steps if self.keep_every_steps else min(eval_steps, _MOST_STEPS_UNSAVED)
        changes = {
            "num_train_steps": steps,
            "eval_steps": eval_steps,
            "save_checkpoints_steps": self.save_checkpoints_steps or most_unsaved,
        }
        changes["keep_checkpoints"] = max(self.keep_checkpoints, self.average_checkpoints)
        changes["num_warmup_steps"] = self.resolved_warmup_steps(steps)
        return dataclasses.replace(self, **changes)

    def checked_against(self, model_config: BertConfig) -> "FinetuningConfig":
        num_layers = model_config.num_hidden_layers
        if self.freeze_layers > num_layers:
            raise UserError(
                f"--freeze_layers={self.freeze_layers}: the encoder has {num_layers}; give at most that many, or -1"
            )
        if self.init_vectors and self.init_checkpoint and not self.token_vector_size:
            raise UserError(
                f"--init_vectors={self.init_vectors}: the weights of --init_checkpoint={self.init_checkpoint} have "
                "word embeddings; add --random_init to take only the shape and vocabulary of that model, or give the "
                "head its own vectors with --token_vector_size"
            )
        if self.language_model_weight and not (model_config.architecture == "gpt" and model_config.has_tied_table):
            is_gpt = model_config.architecture == "gpt"
            found = "has tie_word_embeddings=false" if is_gpt else f"is a {model_config.architecture}"
            raise UserError(
                f"--language_model_weight={self.language_model_weight}: needs a GPT whose output layer is its table of "
                f"word embeddings, but the model {found}; leave it out"
            )
        if self.reinit_layers and not self.init_checkpoint:
            raise UserError(
                f"--reinit_layers={self.reinit_layers}: without weights of --init_checkpoint all layers are new; "
                "leave it out"
            )
        if self.reinit_layers > num_layers:
            raise UserError(
                f"--reinit_layers={self.reinit_layers}: the encoder has {num_layers}; give at most that many"
            )
        if self.reinit_layers and not 0 <= self.freeze_layers <= num_layers - self.reinit_layers:
            raise UserError(
                f"--freeze_layers={self.freeze_layers}: with --reinit_layers={self.reinit_layers} the new layers must "
                f"be trained; give 0 to {num_layers - self.reinit_layers}"
            )
        if self.consistency_weight and not (
            self.classifier_dropout or model_config.has_dropout and self.freeze_layers >= 0
        ):
            raise UserError(
                f"--consistency_weight={self.consistency_weight}: without dropout both answers are the same; leave it "
                "out, or give --classifier_dropout"
            )
        if self.layers == "last_four" and num_layers < 4:
            raise UserError(f"--layers=last_four: the encoder has {num_layers}; give --layers=last or scalar_mix")
        return super().checked_against(model_config)
