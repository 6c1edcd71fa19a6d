"""Mutants of drivers: wrong copies that the conformance kits must catch.

``kiln driver mutate`` makes hundreds of copies of a right driver, each with a mistake that
vendors make, and runs the kit on each. A copy that passes shows a promise that the kit
does not test, or a change that makes no difference.
"""
