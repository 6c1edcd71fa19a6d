"""What users may ask of this driver alone: ``kiln x swarm_debian_v1 VERB CLUSTER``."""

verbs = {}
