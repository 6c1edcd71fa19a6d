"""Programs that build and delete servers, each in a process of its own."""
