"""Report model -> findings; one rule a function, each with its code and its
page."""
