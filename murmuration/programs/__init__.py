"""Programs that are searched for: schedulers of strangers, evaluated in a process that can do nothing but decide."""
