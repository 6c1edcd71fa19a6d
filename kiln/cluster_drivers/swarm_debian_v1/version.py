"""Name, version and cluster types of the driver; read without being executed."""

version = '1.0.0'
driver = 'swarm_debian_v1'
provides = [('*', 'debian', 'docker-swarm')]
