//! Who attempts a task: the built-in tuner, oracle, replay and nop.
