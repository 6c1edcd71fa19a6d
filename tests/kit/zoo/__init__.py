"""Zoo of wrong drivers and guards, each with one defect that the kit must catch."""

from tests.kit.zoo import (
    askers,
    attachers,
    builders,
    deleters,
    droppers,
    failures,
    finders,
    foreigners,
    guards,
    hermits,
    keepers,
    lookers,
    makers,
    movers,
    porters,
    speakers,
    stewards,
)
from tests.kit.zoo.species import ZOO

__all__ = [
    'ZOO',
    'askers',
    'attachers',
    'builders',
    'deleters',
    'droppers',
    'failures',
    'finders',
    'foreigners',
    'guards',
    'hermits',
    'keepers',
    'lookers',
    'makers',
    'movers',
    'porters',
    'speakers',
    'stewards',
]
