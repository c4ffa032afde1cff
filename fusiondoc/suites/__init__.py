"""Programs that ``fusiondoc bench --suite`` times, and the table of their cases.

``tutorial_blocks`` and ``xformers_patterns`` import torch and run in children, as any target does.
"""
