"""Drivers and guards that are wrong on purpose, each in one way: the kit must catch them all."""

from tests.conformance.zoo import (
    askers,
    builders,
    deleters,
    failures,
    guards,
    keepers,
    lookers,
    movers,
    speakers,
)
from tests.conformance.zoo.species import ZOO

__all__ = [
    'ZOO',
    'askers',
    'builders',
    'deleters',
    'failures',
    'guards',
    'keepers',
    'lookers',
    'movers',
    'speakers',
]
