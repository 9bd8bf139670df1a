//! TVM's lowered device IR, translated to the virtual GPU's.
