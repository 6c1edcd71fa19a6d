"""Mutants of compute drivers: wrong copies that the conformance kit must catch.

``kiln driver mutate`` makes hundreds of copies of a right driver, each with a mistake that
vendors make, and runs the kit on each. A copy that passes shows a promise that the kit
does not test, or a change that makes no difference.
"""
