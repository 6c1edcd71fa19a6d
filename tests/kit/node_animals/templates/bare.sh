echo {{ node.name }}
