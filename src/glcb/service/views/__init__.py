"""What people and programs read of an experiment: functions of its sums, which change nothing."""
