"""Changes to the text of a user's program that may let more of it fuse: what ``fusiondoc fix`` tries.

A change is a set of edits of exact places, so that everything else of a file stays as it is, byte for byte.
"""
