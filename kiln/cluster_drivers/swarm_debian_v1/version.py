"""Which driver this is; read without being run."""

version = '1.0.0'
driver = 'swarm_debian_v1'
provides = [('*', 'debian', 'docker-swarm')]
