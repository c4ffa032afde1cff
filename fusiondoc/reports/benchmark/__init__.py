"""What ``fusiondoc bench`` measured, as text, JSON, Markdown and CSV."""
