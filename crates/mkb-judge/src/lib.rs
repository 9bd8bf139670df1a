//! The verdict: draws, correctness contract, clock, legality and report.
