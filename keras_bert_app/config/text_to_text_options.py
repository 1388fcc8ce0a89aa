"""TextToTextOptions: the fine-tuning options of tasks whose answers are texts. The module does not load TensorFlow."""

import dataclasses

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.training_config import TrainingConfig, field
from keras_bert_app.errors import UserError

DECODERS = ("transformer", "rnn_state", "rnn_context", "rnn_feedback")
SHARED_WEIGHTS = ("nothing", "embeddings", "all")
_FEWEST_TOKENS = 3  # of a target text: [CLS], a piece, [SEP]
_OF_LAYERS = ("decoder_layers", "decoder_init")
# Decoder -> options that it does not read.
_UNREAD = {
    "transformer": ("attention", "context", "teacher_forcing"),
    "rnn_state": ("attention", "teacher_forcing", *_OF_LAYERS),
    "rnn_context": ("teacher_forcing", *_OF_LAYERS),
    "rnn_feedback": _OF_LAYERS,
}
# The smallest number of rows in a batch with --batch_tokens. Other numbers are multiples of it.
ROWS_MULTIPLE = 8


@dataclasses.dataclass(frozen=True)
class TextToTextOptions(TrainingConfig):
    """The options of tasks whose answers are texts, together with the options of every training.

    Raises:
        UserError: a value is out of its range. The message names the flag, the value and the range.
    """

    source: str = field(
        "", "Language of the texts to translate, which is the ending of their files: --source=de reads train.de."
    )
    target: str = field("", "Language of the translations, which is the ending of their files, such as en.")
    target_vocab_file: str = field(
        "", "WordPiece vocabulary of the target texts; by default the vocabulary of the texts serves both."
    )
    decoder: str = field(
        "transformer",
        "The decoder of a text-to-text task: a Transformer, or a recurrent one that reads the context as its first "
        "state (rnn_state), at each step (rnn_context), or at each step with the previous piece (rnn_feedback).",
        choices=DECODERS,
    )
    recurrent_encoder: str = field(
        "lstm",
        "The bidirectional layer of --bilstm_units that reads the text for a recurrent decoder: lstm, or gru (gated "
        "recurrent units, Cho et al. 2014).",
        choices=("lstm", "gru"),
    )
    attention: str = field(
        "none",
        "Attention of a recurrent decoder to the encoder's states (additive: Bahdanau et al. 2015; dot: Luong et al. "
        "2015).",
        choices=("none", "additive", "dot"),
    )
    context: str = field(
        "last",
        "Context of a recurrent decoder without attention, and its first state with attention: the last state, a "
        "projection of it, or the mean of all states.",
        choices=("last", "projection", "mean"),
    )
    decoder_layers: int = field(0, "Layers of the decoder; 0: as many as the encoder has.", minimum=0)
    decoder_init: str = field(
        "encoder",
        "First weights of the decoder: those of the encoder's layers (Rothe et al. 2020), or random ones. Its "
        "attention to the encoder is random.",
        choices=("encoder", "scratch"),
    )
    shared_weights: str = field(
        "embeddings",
        "Weights that the decoder shares with the encoder: nothing; the embeddings; or all but its attention to the "
        "encoder (BERTShare).",
        choices=SHARED_WEIGHTS,
    )
    max_target_length: int = field(
        0, "Largest number of tokens of a target text, with [CLS] and [SEP]; 0: as --max_seq_length.", minimum=0
    )
    label_smoothing: float = field(
        0.1,
        "Share of the probability that the loss gives to all pieces alike (Szegedy et al. 2016).",
        minimum=0.0,
        below=1.0,
    )
    num_beams: int = field(
        4, "Beams of the beam search; 1: the most probable piece is taken at each place.", minimum=1, most=100
    )
    length_penalty: float = field(
        0.6, "Exponent of the beam search's length penalty (Wu et al. 2016); 0: none.", minimum=0.0
    )
    temperature: float = field(
        0.0,
        "With --num_beams=1: draws each piece, with logits divided by this number. 0: takes the most probable piece.",
        minimum=0.0,
    )
    top_k: int = field(0, "A draw takes one of so many most probable pieces; 0: one of all pieces.", minimum=0)
    top_p: float = field(
        1.0,
        "A draw takes one of the most probable pieces that have this probability together (Holtzman et al. 2020).",
        minimum=0.01,
        most=1.0,
    )
    batch_tokens: int = field(
        0,
        "Most tokens of the sources, and of the targets, of a training batch, with padding (Vaswani et al. 2017). "
        "Batches of shorter texts then have more rows. 0: every batch has --global_batch_size rows.",
        minimum=0,
    )
    teacher_forcing: float = field(
        1.0,
        "Share of the places at which --decoder=rnn_feedback reads the right previous piece in training. At the other "
        "places it reads the piece that it finds most probable (scheduled sampling, Bengio et al. 2015).",
        minimum=0.0,
        most=1.0,
    )
    teacher_forcing_schedule: str = field(
        "linear",
        "How the share reaches --teacher_forcing: linear falls from 1 over the whole run; constant has it from the "
        "beginning.",
        choices=("linear", "constant"),
    )

    ONLY_WITH = TrainingConfig.ONLY_WITH | {
        "top_k": ("temperature", ()),
        "top_p": ("temperature", ()),
        "teacher_forcing_schedule": ("teacher_forcing", ()),
        "decoder_init": ("init_checkpoint", ()),
        "recurrent_encoder": ("bilstm_units", ()),
    }

    def __post_init__(self):
        super().__post_init__()
        if 0 < self.max_target_length < _FEWEST_TOKENS:
            raise UserError(
                f"--max_target_length={self.max_target_length}: expected {_FEWEST_TOKENS} or more, with [CLS] and "
                "[SEP]; 0 takes --max_seq_length"
            )
        if 0 < self.batch_tokens < ROWS_MULTIPLE * self.longest_row:
            raise UserError(
                f"--batch_tokens={self.batch_tokens}: a batch has at least {ROWS_MULTIPLE} rows of {self.longest_row} "
                f"tokens; give {ROWS_MULTIPLE * self.longest_row} or more, or lower --max_seq_length"
            )
        if self.temperature and self.num_beams > 1:
            raise UserError(
                f"--temperature={self.temperature}: a search with --num_beams={self.num_beams} draws nothing; give "
                "--num_beams=1"
            )

    @property
    def has_many_batch_sizes(self) -> bool:
        return bool(self.batch_tokens)

    @property
    def target_length(self) -> int:
        """The largest number of tokens of a target text, with [CLS] and [SEP]."""
        return self.max_target_length or self.max_seq_length

    @property
    def longest_row(self) -> int:
        """The largest number of tokens of a row, of a source or of a target."""
        return max(self.max_seq_length, self.max_target_length)

    def checked_against(self, model_config: BertConfig) -> "TextToTextOptions":
        if self.max_target_length > model_config.max_position_embeddings:
            raise UserError(
                f"--max_target_length={self.max_target_length} is above the model's max_position_embeddings "
                f"{model_config.max_position_embeddings}; lower it, or raise max_position_embeddings"
            )
        self._check_decoder()
        num_layers = model_config.num_hidden_layers
        if self.shared_weights == "all" and self.decoder_layers > num_layers:
            raise UserError(
                f"--decoder_layers={self.decoder_layers}: with --shared_weights=all the decoder uses the encoder's "
                f"{num_layers} layers; give at most {num_layers}, or --shared_weights=embeddings"
            )
        return super().checked_against(model_config)

    def _check_decoder(self):
        """Raises UserError if an option does not belong to the decoder."""
        for name in _UNREAD[self.decoder]:
            if getattr(self, name) != self._default(name):
                raise UserError(
                    f"--{name}={getattr(self, name)}: --decoder={self.decoder} does not read it; leave it out"
                )
        if self.shared_weights == "all" and self.decoder_init == "scratch":
            raise UserError(
                "--decoder_init=scratch: with --shared_weights=all the decoder has the encoder's layers; leave out one "
                "of them"
            )
        if self.decoder != "transformer" and self.shared_weights == "all":
            raise UserError(
                f"--shared_weights=all: --decoder={self.decoder} has no layers of the encoder's kind; give embeddings "
                "or nothing"
            )
