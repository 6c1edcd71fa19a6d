"""One cluster at work: its worker, and each kind of operation."""
