"""The documentation that an attempt finds in `/docs`, made from what is installed.

One page a module, one entry a name: signature and docstring as the module has them. `pages` says
how a page looks, `symbols` what is known of a name, `cutedsl` and `tirx` what belongs to a DSL.
"""
