"""Changes to the text of a user's program: the file as it is read, and exact edits
of it."""
