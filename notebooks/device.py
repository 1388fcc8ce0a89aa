"""Prints the devices of this machine, and the precision and the compilation that a run on them gets.

python -m notebooks.device '{"train_minutes": 20, "global_batch_size": 64}'

The argument has flags of the run as JSON. Flags that do not matter here are left out.
"""

import dataclasses
import json
import sys

from keras_bert_app.cli.common import app


def main() -> None:
    """Prints the line that also begins the log of a run."""
    given = json.loads(sys.argv[1])
    with app.quiet_start():
        from keras_bert_app.config.training_config import TrainingConfig
        from keras_bert_app.training import strategies

        strategy = strategies.make_strategy("auto")
    names = {field.name for field in dataclasses.fields(TrainingConfig)}
    run = TrainingConfig(**{name: value for name, value in given.items() if name in names})
    run = strategies.resolved(run, strategy)
    print(f"{strategies.describe(strategy, run)}; --precision={run.precision} --jit_compile={run.jit_compile}")


if __name__ == "__main__":
    main()
