"""The difference between two rows of several seeds on the same examples, with its interval."""

import numpy as np

from keras_bert_app.tasks import intervals


def paired_difference(ours: list, theirs: list, sources: list) -> dict:
    """The mean difference between two lists of measures, one for each seed, with its 95 % interval.

    Args:
        ours: list of intervals.Measure.
        theirs: list of intervals.Measure of the same examples.
        sources: the source of each example. The resamples draw all examples of a source together.
    """
    generator = np.random.Generator(np.random.Philox(key=0))

    def mean(measures, indices):
        return np.mean([intervals.score_of(measure, indices) for measure in measures])

    def drawn(measures):
        return [measures[number] for number in generator.integers(len(measures), size=len(measures))]

    low, high = intervals.percentiles(
        [
            mean(drawn(ours), indices) - mean(drawn(theirs), indices)
            for indices in intervals.resamples(intervals.indices_by_source(sources))
        ]
    )
    everything = np.arange(len(sources))
    return {
        "difference": round(float(mean(ours, everything) - mean(theirs, everything)), 6),
        "interval": [round(low, 6), round(high, 6)],
    }
