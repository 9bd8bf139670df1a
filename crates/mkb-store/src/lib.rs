//! One model's results on disk: layout, records, lock, archive and torn-line repair.
