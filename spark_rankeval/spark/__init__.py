"""How evaluation is distributed: reading tables, grouping by user, running the worker, merging its states."""
