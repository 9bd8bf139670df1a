"""`python -m mkb_tirx FILE ARGUMENTS`: an unmodified TIRx program or notebook on a virtual GPU,
with CUDA's side of torch and of TVM there and without a judge.
"""

from mkb_shim import program

from . import install

if __name__ == "__main__":
    program.main(__doc__, install)
