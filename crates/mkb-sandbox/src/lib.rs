//! Where untrusted code lives: an attempt's sandbox and a submission's.
