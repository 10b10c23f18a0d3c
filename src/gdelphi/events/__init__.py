"""Events in the store: loading files, the ledger, ingesting archives, the state of it all."""
