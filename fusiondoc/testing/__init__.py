"""What the pytest plugin does: the model of a test as an archive, its run in a child, and expectations."""
