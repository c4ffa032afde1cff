"""Log bytes -> events -> report model; one small parser a kind of line."""
