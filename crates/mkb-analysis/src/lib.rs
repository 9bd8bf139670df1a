//! From records to rates, lifts, tiers and results.json; pure.
