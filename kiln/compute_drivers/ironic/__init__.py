"""The Ironic driver: amphorae on bare-metal nodes that Ironic deploys."""
