"""Claims of machines: state machine, records, store, matching."""
