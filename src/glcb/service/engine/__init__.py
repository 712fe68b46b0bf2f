"""The experiments of a process: loaded, changed by events, written to the journal and saved."""
