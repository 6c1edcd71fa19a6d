"""What judges mutants of the Docker driver on a real engine, for ``kiln driver mutate``."""

from tests.functional.docker import test_conformance


class MutantConformance(test_conformance.DockerConformance):
    """The whole kit without guards; what a mutant never does is not waited for so long."""

    timeout_s = 60.0
