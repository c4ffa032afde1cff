"""What runs beside torch, inside the user's interpreter: standard library and torch only, Python 3.7 upward.

It is started by path (``python .../probe/__main__.py SPEC.json RECORDS.jsonl``), imports nothing from the
rest of the package, and talks back through a file of JSON lines, never through stdout.
"""
