//! Problems, DSLs, directions, arms, coordinates, task rendering and fingerprints.
