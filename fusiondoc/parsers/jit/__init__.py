"""Messages of torch's JIT log: passes, plans, rejections."""
