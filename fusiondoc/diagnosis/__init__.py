"""Report model -> findings; each rule is a function, with a code and a page."""
