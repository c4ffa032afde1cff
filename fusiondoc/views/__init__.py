"""Contents of documents: reports, benches, surveys as sections of blocks, the same
for every format."""
