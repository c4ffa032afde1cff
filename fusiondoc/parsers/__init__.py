"""Log bytes -> events -> report model, with one small parser for each kind of
line."""
