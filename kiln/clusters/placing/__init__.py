"""Places of the nodes of a group: what counts allow, who can stay, what is missing; pure."""
