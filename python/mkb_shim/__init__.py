"""torch on the virtual GPU: tensors that say `cuda` and live in the arena."""
