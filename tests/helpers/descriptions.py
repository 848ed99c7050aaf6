"""The description of one group alone, which tests compare with what they expect."""

import numpy as np

from spark_rankeval.statistics.description import descriptions_of_groups
from spark_rankeval.statistics.exact import MomentsAccumulator, moments_of
from spark_rankeval.worker.states import GroupStates


def descriptions_of(state, options, clusters=None):
    """The figures of every column of one group, from its state and the clusters of each column."""
    return descriptions_of_groups(state, options, None if clusters is None else [clusters])[0]


def merged_descriptions(states):
    """The state of all users of one group, from those of parts of them."""
    return GroupStates.merged(GroupStates([()], dict(state)) for state in states).parts


def column(state, index=0):
    """The state of one column of several, one number per field."""
    return {name: values[index] for name, values in state.items()}


def moments(values):
    """The moments of the values of one column."""
    accumulator = MomentsAccumulator(1)
    accumulator.add(0, np.asarray(values, float))
    return moments_of(column(accumulator.state()))
